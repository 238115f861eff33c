// Kernels written in JavaScript, compiled to WebAssembly where they run: in browsers and in Node 18 or newer.
//
//     import { load, Symbol, Tensor } from "./kernels.mjs";
//
//     await load();                                          // tenon-kernels.wasm, from beside this file
//     const [m, k, n] = ["m", "k", "n"].map((name) => new Symbol(name));
//     const a = new Tensor(x, [512, 256]).to(m, k);          // x, y: typed arrays
//     const b = new Tensor(y, [256, 128]).to(k, n);
//     const c = a.mul(b).sum(k);
//     const values = await c.data;                           // a Float32Array
//
// Nothing is computed before it is asked for. docs/web-kernels.md is the manual.
import { DTYPES, RELAXED_MADD, Runtime, TENSOR_BYTES, TenonError, compile, given, invalid } from "./runtime.mjs";

export { TenonError };

const OPERAND_BYTES = 16; // js/kernels/tensors.cpp: of an OperandWords,
const PAIR_BYTES = 8; // and of the other structures there

// ---- the module -----------------------------------------------------------------------------------------------------

let runtime = null; // the module, once it is loaded
let loading = null; // a promise of it

function loaded() {
  if (runtime === null) throw invalid("the compiler is not there yet: await load() first");
  return runtime;
}

/** What kernels import: the module's memory, and its functions that are called "kernel.NAME". For kernel_server.mjs. */
export function environmentOf(exports) {
  const env = { memory: exports.memory };
  for (const name of Object.keys(exports)) {
    if (name.startsWith("kernel.")) env[name.slice("kernel.".length)] = exports[name];
  }
  return env;
}

// The module's imports for kernels (js/kernels/backend.cpp): each is a module with one function, which the compiler calls
// by its place in its table.
function kernelLoader(memory) {
  const vacant = [];
  const tableOf = () => memory().exports.__indirect_function_table;
  return {
    instantiate(at, size, text, capacity) {
      try {
        const module = new WebAssembly.Module(memory().bytes.slice(at, at + size));
        const { kernel } = new WebAssembly.Instance(module, { env: environmentOf(memory().exports) }).exports;
        const place = vacant.pop() ?? tableOf().grow(1);
        tableOf().set(place, kernel);
        return place;
      } catch (error) {
        memory().bytes.set(new TextEncoder().encode(error.message).subarray(0, capacity), text);
        return 0;
      }
    },
    release(place) {
      tableOf().set(place, null);
      vacant.push(place);
    },
    has_relaxed_simd: () => Number(WebAssembly.validate(RELAXED_MADD)),
  };
}

/** A module of this kind as a Runtime, for tests. */
export async function start(source) {
  const started = await Runtime.over(await compile(source), undefined, kernelLoader);
  started.exports._initialize();
  return started;
}

/**
 * Loads the compiler, once: where tenon-kernels.wasm is (a URL), its bytes, or a WebAssembly.Module. Everything else
 * here needs it.
 */
export async function load(source = "tenon-kernels.wasm") {
  loading ??= start(source);
  try {
    runtime = await loading;
  } catch (error) {
    loading = null; // it can be tried again
    throw error;
  }
}

/** Bytes of WebAssembly memory; it never shrinks. */
export const memoryBytes = () => loaded().exports.memory.buffer.byteLength;

// Calls a function of the module. Texts become pointers; the result is the text that the function made.
function call(name, ...args) {
  const { exports, memory } = loaded();
  const texts = [];
  try {
    const words = args.map((arg) => {
      if (typeof arg !== "string") return arg;
      texts.push(memory.copyIn(new TextEncoder().encode(`${arg}\0`)));
      return texts.at(-1);
    });
    runtime.check(exports[name](...words));
  } catch (error) {
    if (!(error instanceof WebAssembly.RuntimeError)) throw error;
    throw TenonError.of("internal", `the kernel failed: ${error.message}`);
  } finally {
    texts.forEach((text) => memory.free(text));
  }
}

function textOf(name, ...args) {
  call(name, ...args);
  return runtime.memory.text(runtime.exports.kernels_text());
}

// The object that a function makes: it takes a place for it as its last argument.
function made(name, ...args) {
  return loaded().with(4, (place) => {
    call(name, ...args, place);
    return runtime.memory.pointer(place);
  });
}

const freeTensor = new FinalizationRegistry((handle) => runtime.exports.tensor_free(handle));
const freeTree = new FinalizationRegistry((handle) => runtime.exports.tree_free(handle));

// ---- symbols and expressions ----------------------------------------------------------------------------------------

const exprText = (value) => {
  if (value instanceof Expr) return value.text;
  if (Number.isSafeInteger(value) || typeof value === "bigint") return String(value);
  throw invalid(`${String(value)} is no index: give a Symbol, an Expr, or a whole number`);
};

/** An exact integer expression over Symbols and their sizes. Immutable. */
export class Expr {
  constructor(value) {
    this.text = typeof value === "string" ? value : exprText(value);
  }

  add(other) {
    return new Expr(textOf("expr_apply", "add", this.text, exprText(other)));
  }
  sub(other) {
    return new Expr(textOf("expr_apply", "sub", this.text, exprText(other)));
  }
  mul(other) {
    return new Expr(textOf("expr_apply", "mul", this.text, exprText(other)));
  }
  /** Rounds down. */
  div(other) {
    return new Expr(textOf("expr_apply", "div", this.text, exprText(other)));
  }
  /** Has the sign of the divisor. */
  mod(other) {
    return new Expr(textOf("expr_apply", "mod", this.text, exprText(other)));
  }
  min(other) {
    return new Expr(textOf("expr_apply", "min", this.text, exprText(other)));
  }
  max(other) {
    return new Expr(textOf("expr_apply", "max", this.text, exprText(other)));
  }

  toString() {
    return textOf("expr_shown", this.text);
  }
}

/** A dimension, by identity: two Symbols of one name are two dimensions. As an expression, the index along it. */
export class Symbol extends Expr {
  constructor(name) {
    super(textOf("symbol_new", name));
    this.name = name;
  }

  /** How many elements there are along the dimension, as an Expr. */
  get size() {
    return new Expr(textOf("symbol_size", this.text));
  }

  static from(name, text) {
    return Object.assign(Object.create(Symbol.prototype), { name, text });
  }
}

function symbolText(symbol) {
  if (symbol instanceof Symbol) return symbol.text;
  throw invalid(`${String(symbol)} is no Symbol`);
}
const symbolTexts = (symbols) => symbols.flat().map(symbolText).join(" ");

// ---- tensors --------------------------------------------------------------------------------------------------------

// Writes an OperandWords: a tensor, or a number. A whole number is an integer, but for one beside floats.
function writeOperand(at, operand) {
  const view = runtime.memory.view;
  const isTensor = operand instanceof Tensor;
  if (!isTensor && typeof operand !== "number" && typeof operand !== "boolean")
    throw invalid(`${String(operand)} is no operand: give a Tensor or a number`);
  view.setUint32(at, isTensor ? operand.handle : 0, true);
  view.setUint32(at + 4, isTensor ? 0 : Number.isInteger(Number(operand)) ? 1 : 2, true);
  view.setFloat64(at + 8, isTensor ? 0 : Number(operand), true);
}

function withOperands(operands, body) {
  return loaded().with(OPERAND_BYTES * operands.length + 8, (at) => {
    operands.forEach((operand, i) => writeOperand(at + OPERAND_BYTES * i, operand));
    return body(at);
  });
}

// Pairs of a word and a text: coordinates, parts, sizes.
function withPairs(pairs, body) {
  const texts = [];
  try {
    return loaded().with(PAIR_BYTES * pairs.length + 8, (at) => {
      pairs.forEach(([word, text], i) => {
        const pointers = [word, text].map((each) => {
          if (typeof each !== "string") return each;
          texts.push(runtime.memory.copyIn(new TextEncoder().encode(`${each}\0`)));
          return texts.at(-1);
        });
        pointers.forEach((each, j) => runtime.memory.view.setUint32(at + PAIR_BYTES * i + 4 * j, each, true));
      });
      return body(at);
    });
  } finally {
    texts.forEach((text) => runtime.memory.free(text));
  }
}

const coordinatePairs = (index) =>
  index.map((each) => (each instanceof Tensor ? [each.handle, 0] : [0, exprText(each)]));

function dtypeOf(data) {
  const found = DTYPES.find(([name, Type]) => Type === data.constructor && name !== "bool");
  if (found === undefined || data instanceof Uint16Array) throw invalid("say which dtype the elements have");
  return found[0];
}

/** An expression over named dimensions. Immutable, but for the data of an input and its loops. */
export class Tensor {
  #handle;

  /**
   * new Tensor(data, shape, dtype): an input with data, a typed array; its dimensions get Symbols with to().
   * new Tensor(symbols, dtype): an input that bind() gives its data.
   */
  constructor(first, second, third) {
    if (first === Tensor.#fromHandle) {
      this.#own(second);
    } else if (Array.isArray(first) && first.every((each) => each instanceof Symbol)) {
      this.#own(made("tensor_input", symbolTexts(first), second ?? "f32"));
    } else {
      const shape = second ?? [first.length];
      const dims = shape.map((_, i) => new Symbol(`d${i}`));
      this.#own(made("tensor_input", symbolTexts(dims), third ?? (ArrayBuffer.isView(first) ? dtypeOf(first) : "f32")));
      this.bind({ data: first, shape });
    }
  }

  static #fromHandle = {}; // only this class has it
  static made(name, ...args) {
    return new Tensor(Tensor.#fromHandle, made(name, ...args));
  }

  #own(handle) {
    this.#handle = handle;
    freeTensor.register(this, handle);
  }

  get handle() {
    return this.#handle;
  }

  /** Gives an input its data: a typed array, numbers, or {data, shape}. Copied. */
  bind(data) {
    const { dtype, shape } = this.#description;
    const tensor = loaded().makeTensor(given(data, { name: "data", dtype, shape }));
    try {
      call("tensor_bind", this.handle, tensor);
    } finally {
      runtime.memory.free(tensor);
    }
    return this;
  }

  // ---- what it is ----

  get #description() {
    return JSON.parse(textOf("tensor_describe", this.handle));
  }

  get dtype() {
    return this.#description.dtype;
  }
  /** Its dimensions, as Symbols. */
  get symbols() {
    return this.#description.dims.map(([name, text]) => Symbol.from(name, text));
  }
  /** A number for each dimension, or text where the size is not known. */
  get shape() {
    return this.#description.shape;
  }

  // ---- views ----

  /** The same under new Symbols, by position. */
  to(...symbols) {
    return Tensor.made("tensor_to", this.handle, symbolTexts(symbols));
  }
  /** The same Symbols in another order. */
  transpose(...symbols) {
    return Tensor.made("tensor_transpose", this.handle, symbolTexts(symbols));
  }
  /** The elements at an Expr, Symbol, number or Tensor of integers for each dimension. Outside is an error. */
  index(...index) {
    return withPairs(coordinatePairs(index), (at) => Tensor.made("tensor_index", this.handle, at, index.length));
  }
  /** Likewise, but `fill` outside. */
  at(index, fill = 0) {
    return withOperands([fill], (value) =>
      withPairs(coordinatePairs(index), (at) => Tensor.made("tensor_at", this.handle, at, index.length, value)),
    );
  }
  /** Elements before and behind; fewer of them where a number is negative. */
  pad(symbol, low, high = low, { fill = 0, to = new Symbol(symbol.name) } = {}) {
    return withOperands([fill], (value) =>
      Tensor.made("tensor_pad", this.handle, symbolText(symbol), low, high, value, symbolText(to)),
    );
  }
  /** Several dimensions as one, the last the fastest. */
  flatten(symbols, flat) {
    return Tensor.made("tensor_flatten", this.handle, symbolTexts(symbols), symbolText(flat));
  }
  /** The inverse. `innermost` is the size of the last part, where it is known from nowhere else. */
  split(flat, parts, innermost = 0) {
    return Tensor.made("tensor_split", this.handle, symbolText(flat), symbolTexts(parts), innermost);
  }
  /** [[symbol, size], ...] */
  with_sizes(...sizes) {
    const pairs = sizes.map(([symbol, size]) => [symbolText(symbol), size]);
    return withPairs(pairs, (at) => Tensor.made("tensor_with_sizes", this.handle, at, sizes.length));
  }

  // ---- reductions: of some dimensions, or of all ----

  sum(...symbols) {
    return this.reduce("sum", symbols);
  }
  prod(...symbols) {
    return this.reduce("prod", symbols);
  }
  mean(...symbols) {
    return this.reduce("mean", symbols);
  }
  max(...symbols) {
    return this.reduce("max", symbols);
  }
  min(...symbols) {
    return this.reduce("min", symbols);
  }
  reduce(op, symbols) {
    return Tensor.made("tensor_reduce", this.handle, op, symbolTexts(symbols));
  }

  cast(dtype) {
    return Tensor.made("tensor_cast", this.handle, dtype);
  }

  // ---- running ----

  /** A promise of its elements in row-major order, as a typed array. Compiles what was not compiled before. */
  get data() {
    return Promise.resolve().then(() => this.compute().data);
  }

  /** The same at once: {dtype, shape, data}. */
  compute() {
    const array = made("tensor_data", this.handle);
    try {
      return runtime.with(TENSOR_BYTES, (view) => {
        call("array_view", array, view);
        return runtime.readTensor(view);
      });
    } finally {
      runtime.exports.array_free(array);
    }
  }

  /** The WebAssembly of its kernel, as text. */
  get code() {
    return textOf("tensor_code", this.handle);
  }

  /** Its loops: those that were set, else plain loops to start from. */
  get loop_tree() {
    return new LoopTree(made("tensor_loop_tree", this.handle));
  }
  /** Set to null, they are the compiler's own again. */
  set loop_tree(tree) {
    this.set(tree);
  }
  set(tree) {
    call("tensor_set", this.handle, tree === null ? 0 : tree.handle);
    return this;
  }

  /** Runs for `seconds`: {seconds, runs, gflops}, of the fastest run. */
  benchmark(seconds = 0.2) {
    return loaded().with(24, (at) => {
      call("tensor_benchmark", this.handle, seconds, at);
      const [best, runs, flops] = [0, 8, 16].map((offset) => runtime.memory.view.getFloat64(at + offset, true));
      return { seconds: best, runs, gflops: flops / best / 1e9 };
    });
  }
}

/** Any op on single elements, by its name: apply("gelu", x), apply("where", condition, a, b). */
export function apply(op, ...operands) {
  return withOperands(operands, (at) => Tensor.made("tensor_apply", op, at, operands.length));
}

const METHODS = [
  "neg abs sign square sqrt rsqrt reciprocal floor ceil trunc isnan logical_not bitwise_not",
  "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf",
  "relu sigmoid gelu silu softplus",
  "add sub mul div pow fmod remainder maximum minimum atan2 eq ne lt le gt ge",
  "logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor",
];
for (const name of METHODS.flatMap((names) => names.split(" "))) {
  Object.defineProperty(Tensor.prototype, name, {
    value(...others) {
      return apply(name, this, ...others);
    },
  });
}

/** `a` where the condition holds, else `b`. */
export const where = (condition, a, b) => apply("where", condition, a, b);

/** An i64 Tensor over the Symbols of an expression: index(m) counts 0, 1, 2, ... */
export const index = (expr) => Tensor.made("tensor_of_expr", exprText(expr));

/** [[tensor, symbol], ...] one after the other, along a dimension that each has under its own Symbol. */
export function concat(parts, symbol) {
  const pairs = parts.map(([tensor, dim]) => [tensor.handle, symbolText(dim)]);
  return withPairs(pairs, (at) => Tensor.made("tensor_concat", at, parts.length, symbolText(symbol)));
}

// ---- loops ----------------------------------------------------------------------------------------------------------

/** The loops of a kernel. Edits make new trees. A ref is the number of a line of dump(). */
export class LoopTree {
  #handle;
  #description = null;

  constructor(handle) {
    this.#handle = handle;
    freeTree.register(this, handle);
  }

  get handle() {
    return this.#handle;
  }

  get #refs() {
    this.#description ??= JSON.parse(textOf("tree_describe", this.handle));
    return this.#description.refs;
  }
  #at(ref) {
    const found = this.#refs[ref];
    if (found === undefined) throw invalid(`there is no ref ${ref}: the tree has ${this.#refs.length}, from 0 on`);
    return found;
  }

  get roots() {
    return this.#refs.length === 0 ? [] : this.#description.roots;
  }
  children(ref) {
    return this.#at(ref).children;
  }
  /** null for a root. */
  parent(ref) {
    return this.#at(ref).parent;
  }
  depth(ref) {
    return this.#at(ref).depth;
  }
  is_loop(ref) {
    return this.#at(ref).var !== undefined;
  }
  /** {var, size, tail, step, annotation, parallel}; `parallel` says whether its iterations may run at the same time. */
  loop(ref) {
    if (!this.is_loop(ref)) throw invalid(`ref ${ref} is a node, not a loop`);
    const { parent, depth, children, ...loop } = this.#at(ref);
    return loop;
  }
  /** {name, text, inputs} */
  node(ref) {
    if (this.is_loop(ref)) throw invalid(`ref ${ref} is a loop, not a node`);
    const { node, text, inputs } = this.#at(ref);
    return { name: node, text, inputs };
  }

  /** Calls visit(ref, depth) in the order of execution, from the roots or from `start`. */
  walk(visit, start) {
    for (const ref of start === undefined ? this.roots : [start]) {
      visit(ref, this.depth(ref));
      this.children(ref).forEach((child) => this.walk(visit, child));
    }
  }

  dump() {
    return textOf("tree_dump", this.handle);
  }
  /** Text that LoopTree.parse reads, here or in another process. */
  serialize() {
    return textOf("tree_text", this.handle);
  }
  static parse(text) {
    return new LoopTree(made("tree_parse", text));
  }
  /** The WebAssembly of these loops, as text. */
  get code() {
    return textOf("tree_code", this.handle);
  }

  /**
   * The first `limit` accesses to memory of a run, in order: {arrays: [{name, role, elements}], steps: [{array, position,
   * writes}], isWhole}. Scratch of one element, which is a register, is left out.
   */
  accesses(limit = 4096) {
    const { arrays, steps, isWhole } = JSON.parse(textOf("tree_accesses", this.handle, limit));
    const step = (_, i) => ({ array: steps[3 * i], position: steps[3 * i + 1], writes: steps[3 * i + 2] === 1 });
    return { arrays, steps: Array.from({ length: steps.length / 3 }, step), isWhole };
  }

  // ---- edits ----

  /** An edit as text: "split 2 16". */
  edit(text) {
    return new LoopTree(made("tree_edit", this.handle, text));
  }
  /** The loop becomes two; the inner one has `size` iterations. */
  split(ref, size) {
    return this.edit(`split ${ref} ${size}`);
  }
  /** The inverse: a loop, and the loop inside of it over the same variable. */
  merge(ref) {
    return this.edit(`merge ${ref}`);
  }
  /** Exchanges two loops, by their refs, or two nodes, by their names. */
  swap(a, b) {
    return this.edit(typeof a === "string" ? `swap %${a} %${b}` : `swap ${a} ${b}`);
  }
  /** Joins the loop with the loop before it. */
  fuse(ref) {
    return this.edit(`fuse ${ref}`);
  }
  /** Cuts a loop in two, before a child. */
  unfuse(ref, child) {
    return this.edit(`unfuse ${ref} ${child}`);
  }
  /** "vectorize", "unroll", "parallel", or "none". */
  annotate(ref, annotation) {
    return this.edit(`annotate ${ref} ${annotation || "none"}`);
  }
  /** The loops of one node, from the outside in: "m by 8, n, m, k". */
  reorder(node, loops) {
    return this.edit(`order %${node} ${loops}`);
  }
  /** The node reads an input through a copy, made in the loop `ref`, or before all loops. */
  copy_input(node, input, ref) {
    return this.edit(`copy %${node} %${input}${ref === undefined ? "" : ` ${ref}`}`);
  }
  delete_copy(node) {
    return this.edit(`delete %${node}`);
  }
  /** Folds the loop `ref` in two stages. */
  split_node(node, ref) {
    return this.edit(`split_node %${node} ${ref}`);
  }

  /** The compiler's own loops for the kernel: fast without a search. */
  schedule() {
    return new LoopTree(made("tree_schedule", this.handle));
  }
  /** The ref of `after` that corresponds to one of this tree; null: there is none. */
  map_ref(ref, after) {
    const found = made("tree_map_ref", this.handle, ref, after.handle) | 0;
    return found < 0 ? null : found;
  }

  toString() {
    return this.dump();
  }
}

export const serialize = (tree) => tree.serialize();
export const deserialize = (text) => LoopTree.parse(text);
