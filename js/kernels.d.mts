/** What kernels.mjs offers; docs/web-kernels.md is the manual. */
import { DType, InputValue, TensorData, TypedArray, TenonError } from "./tenon.mjs";

export { TenonError };

/** Loads the compiler, once; everything else here needs it. */
export function load(source?: string | URL | ArrayBuffer | ArrayBufferView | WebAssembly.Module): Promise<void>;

/** Bytes of WebAssembly memory; it never shrinks. */
export function memoryBytes(): number;

/** An exact integer expression over Symbols and their sizes. */
export class Expr {
  constructor(value: Index);
  /** With unique names. */
  readonly text: string;
  add(other: Index): Expr;
  sub(other: Index): Expr;
  mul(other: Index): Expr;
  /** Rounds down. */
  div(other: Index): Expr;
  mod(other: Index): Expr;
  min(other: Index): Expr;
  max(other: Index): Expr;
  toString(): string;
}

/** A dimension, by identity. As an expression, the index along it. */
export class Symbol extends Expr {
  constructor(name: string);
  readonly name: string;
  readonly size: Expr;
}

export type Index = Expr | number | bigint;
export type Operand = Tensor | number | boolean;
export type Dims = (Symbol | Symbol[])[];

export interface Benchmark {
  /** Of the fastest run. */
  seconds: number;
  runs: number;
  gflops: number;
}

export class Tensor {
  /** An input with data; to() gives its dimensions Symbols. */
  constructor(data: TypedArray | number[], shape?: number[], dtype?: DType);
  /** An input that bind() gives its data. */
  constructor(symbols: Symbol[], dtype?: DType);
  bind(data: InputValue): this;

  readonly dtype: DType;
  readonly symbols: Symbol[];
  /** Text where a size is not known. */
  readonly shape: (number | string)[];

  to(...symbols: Dims): Tensor;
  transpose(...symbols: Dims): Tensor;
  index(...index: (Index | Tensor)[]): Tensor;
  at(index: (Index | Tensor)[], fill?: number | boolean): Tensor;
  pad(symbol: Symbol, low: number, high?: number, options?: { fill?: number | boolean; to?: Symbol }): Tensor;
  flatten(symbols: Symbol[], flat: Symbol): Tensor;
  split(flat: Symbol, parts: Symbol[], innermost?: number): Tensor;
  with_sizes(...sizes: [Symbol, number][]): Tensor;

  sum(...symbols: Dims): Tensor;
  prod(...symbols: Dims): Tensor;
  mean(...symbols: Dims): Tensor;
  max(...symbols: Dims): Tensor;
  min(...symbols: Dims): Tensor;
  cast(dtype: DType): Tensor;

  neg(): Tensor;
  abs(): Tensor;
  sign(): Tensor;
  square(): Tensor;
  sqrt(): Tensor;
  rsqrt(): Tensor;
  reciprocal(): Tensor;
  exp(): Tensor;
  exp2(): Tensor;
  expm1(): Tensor;
  log(): Tensor;
  log2(): Tensor;
  log10(): Tensor;
  log1p(): Tensor;
  sigmoid(): Tensor;
  sin(): Tensor;
  cos(): Tensor;
  tan(): Tensor;
  asin(): Tensor;
  acos(): Tensor;
  atan(): Tensor;
  sinh(): Tensor;
  cosh(): Tensor;
  tanh(): Tensor;
  asinh(): Tensor;
  acosh(): Tensor;
  atanh(): Tensor;
  erf(): Tensor;
  floor(): Tensor;
  ceil(): Tensor;
  trunc(): Tensor;
  relu(): Tensor;
  gelu(): Tensor;
  silu(): Tensor;
  softplus(): Tensor;
  isnan(): Tensor;
  logical_not(): Tensor;
  bitwise_not(): Tensor;
  add(other: Operand): Tensor;
  sub(other: Operand): Tensor;
  mul(other: Operand): Tensor;
  div(other: Operand): Tensor;
  pow(other: Operand): Tensor;
  maximum(other: Operand): Tensor;
  minimum(other: Operand): Tensor;
  fmod(other: Operand): Tensor;
  remainder(other: Operand): Tensor;
  atan2(other: Operand): Tensor;
  eq(other: Operand): Tensor;
  ne(other: Operand): Tensor;
  lt(other: Operand): Tensor;
  le(other: Operand): Tensor;
  gt(other: Operand): Tensor;
  ge(other: Operand): Tensor;
  logical_and(other: Operand): Tensor;
  logical_or(other: Operand): Tensor;
  logical_xor(other: Operand): Tensor;
  bitwise_and(other: Operand): Tensor;
  bitwise_or(other: Operand): Tensor;
  bitwise_xor(other: Operand): Tensor;

  /** Its elements in row-major order. */
  readonly data: Promise<TypedArray>;
  compute(): TensorData;
  /** WebAssembly, as text. */
  readonly code: string;
  get loop_tree(): LoopTree;
  set loop_tree(tree: LoopTree | null);
  set(tree: LoopTree | null): this;
  benchmark(seconds?: number): Benchmark;
}

/** Any op on single elements, by its name. */
export function apply(op: string, ...operands: Operand[]): Tensor;
export function where(condition: Operand, a: Operand, b: Operand): Tensor;
export function index(expr: Index): Tensor;
export function concat(parts: [Tensor, Symbol][], symbol: Symbol): Tensor;

/** The number of a line of LoopTree.dump(). */
export type Ref = number;

export interface Loop {
  var: string;
  size: number | string;
  tail: number | string;
  step: number;
  annotation: string;
  /** Whether its iterations may run at the same time. */
  parallel: boolean;
}

export interface Node {
  name: string;
  text: string;
  inputs: string[];
}

export interface Accesses {
  arrays: { name: string; role: "input" | "output" | "scratch"; elements: number }[];
  /** In order; `array` is a place in `arrays`, and `position` counts elements. */
  steps: { array: number; position: number; writes: boolean }[];
  /** Whether these are all. */
  isWhole: boolean;
}

export class LoopTree {
  private constructor();
  readonly roots: Ref[];
  children(ref: Ref): Ref[];
  parent(ref: Ref): Ref | null;
  depth(ref: Ref): number;
  is_loop(ref: Ref): boolean;
  loop(ref: Ref): Loop;
  node(ref: Ref): Node;
  walk(visit: (ref: Ref, depth: number) => void, start?: Ref): void;
  dump(): string;
  toString(): string;
  serialize(): string;
  static parse(text: string): LoopTree;
  readonly code: string;
  /** The first accesses to memory of a run. */
  accesses(limit?: number): Accesses;

  edit(text: string): LoopTree;
  split(ref: Ref, size: number): LoopTree;
  merge(ref: Ref): LoopTree;
  swap(a: Ref, b: Ref): LoopTree;
  swap(a: string, b: string): LoopTree;
  fuse(ref: Ref): LoopTree;
  unfuse(ref: Ref, child: Ref): LoopTree;
  annotate(ref: Ref, annotation: "vectorize" | "unroll" | "parallel" | "none"): LoopTree;
  reorder(node: string, loops: string): LoopTree;
  copy_input(node: string, input: string, ref?: Ref): LoopTree;
  delete_copy(node: string): LoopTree;
  split_node(node: string, ref: Ref): LoopTree;
  schedule(): LoopTree;
  map_ref(ref: Ref, after: LoopTree): Ref | null;
}

export function serialize(tree: LoopTree): string;
export function deserialize(text: string): LoopTree;
