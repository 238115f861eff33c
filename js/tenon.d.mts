/** What tenon.mjs offers; docs/web.md is the manual. */

export type DType = "f64" | "f32" | "f16" | "bf16" | "i64" | "i32" | "i16" | "i8" | "u8" | "bool";

/** f16 and bf16 are the bits, bool is 0 and 1. */
export type TypedArray =
  | Float64Array
  | Float32Array
  | Uint16Array
  | BigInt64Array
  | Int32Array
  | Int16Array
  | Int8Array
  | Uint8Array;

export type Status =
  | "ok"
  | "invalid argument"
  | "bad file"
  | "unsupported"
  | "io"
  | "out of memory"
  | "over budget"
  | "run failed"
  | "internal";

export class TenonError extends Error {
  readonly status: Status;
}

export interface TensorInfo {
  name: string;
  dtype: DType;
  /** A size that is known when the program runs is text: an expression over symbols. */
  shape: (number | string)[];
}

export interface SymbolInfo {
  name: string;
  low: number;
  high: number;
}

export interface TensorData {
  dtype: DType;
  shape: number[];
  data: TypedArray;
}

export interface Result extends TensorData {
  name: string;
}

export type InputValue =
  | TypedArray
  | number[]
  | bigint[]
  | number
  | bigint
  | boolean
  | { data: TypedArray | number[] | bigint[]; shape?: readonly number[] };

export type Inputs = InputValue[] | { [name: string]: InputValue };

export interface RunOptions {
  seed?: number | bigint;
  /** Notes the time of each task, for `events`. */
  telemetry?: boolean;
}

export interface LoadOptions {
  /** How many run loops: one where the page is not isolated, whatever it says here. */
  threads?: number;
}

export interface OpenOptions {
  /** false: no code of the file becomes executable, and the program runs on the portable interpreter. */
  native?: boolean;
}

export interface Progress {
  loaded: number;
  /** undefined where nobody says how much comes. */
  total?: number;
}

export interface StreamOptions extends OpenOptions {
  onProgress?: (progress: Progress) => void;
  signal?: AbortSignal;
}

export type Module = string | URL | ArrayBuffer | ArrayBufferView | WebAssembly.Module;

export type Source = string | URL | Request | Response | Blob | ReadableStream<Uint8Array>;

/** A task of a run. Times are milliseconds; -1 is not known. */
export interface TaskEvent {
  task: string;
  kind: "kernel" | "library" | "fallback";
  start: number;
  end: number;
  bytes: number;
  flops: number;
}

export interface MemoryUse {
  current: number;
  peak: number;
  arena: number;
}

/** A tensor of a description; `first` writes it, and `last` reads it last. -1 is not known, or none. */
export interface SlotDescription {
  /** Of a constant: the parameter or buffer of the model. */
  name: string;
  type: string;
  kind: "input" | "state" | "constant" | "temporary" | "output";
  root: number;
  bytes: number;
  offset: number;
  first: number;
  last: number;
}

export interface TaskDescription {
  name: string;
  kind: "kernel" | "library" | "fallback" | "device" | "transfer";
  ops: string[];
  place: string;
  inputs: number[];
  outputs: number[];
  device: string;
  loops: number;
}

/** A program as pages draw it. Tensors and loops have numbers: places in `slots` and `loops`. */
export interface Description {
  name: string;
  inputs: { name: string; slot: number }[];
  outputs: { name: string; slot: number }[];
  states: { name: string; slot: number }[];
  symbols: { name: string; low: number; high: number | null }[];
  slots: SlotDescription[];
  tasks: TaskDescription[];
  loops: string[];
  plan: { bytes: number; least: number } | null;
  sections: { kind: string; name: string; offset: number; size: number }[];
}

/** The runtime. Programs of one Tenon share its memory. */
export class Tenon {
  private constructor();
  /** `source`: where tenon.wasm is, its bytes, or a module; beside tenon.mjs where it is left out. */
  static load(source?: Module, options?: LoadOptions): Promise<Tenon>;
  readonly version: string;
  readonly threads: number;
  /** Bytes of WebAssembly memory, which never shrinks. */
  readonly memoryBytes: number;
  open(bytes: ArrayBuffer | ArrayBufferView, options?: OpenOptions): Program;
  openFrom(source: Source, options?: StreamOptions): Promise<Program>;
}

export class Program {
  private constructor();
  /** Of a module that `tenon web` made. */
  static load(source: Module, options?: OpenOptions): Promise<Program>;
  readonly name: string;
  readonly entries: string[];
  readonly inputs: TensorInfo[];
  readonly outputs: TensorInfo[];
  readonly symbols: SymbolInfo[];
  readonly states: States;
  readonly events: TaskEvent[];
  readonly memory: MemoryUse;
  run(inputs?: Inputs, options?: RunOptions): Result[];
  /** Only of tenon-inspect.wasm. */
  describe(): Description;
  entry(name: string): Program;
  close(): void;
}

export class States {
  private constructor();
  readonly list: TensorInfo[];
  get(name: string): TensorData;
  set(name: string, value: InputValue): void;
  reset(): void;
}
