// tenon.wasm and its memory: what the modules of this package share. Not an interface for users.

// The order of tenon_dtype in tenon.h. f16 and bf16 are bits; a bool is 0 or 1.
export const DTYPES = [
  ["f64", Float64Array],
  ["f32", Float32Array],
  ["f16", Uint16Array],
  ["bf16", Uint16Array],
  ["i64", BigInt64Array],
  ["i32", Int32Array],
  ["i16", Int16Array],
  ["i8", Int8Array],
  ["u8", Uint8Array],
  ["bool", Uint8Array],
];

const STATUSES = [
  "ok",
  "invalid argument",
  "bad file",
  "unsupported",
  "io",
  "out of memory",
  "over budget",
  "run failed",
  "internal",
];
const INVALID_ARGUMENT = 1;
const INTERNAL = 8;

const ALIGNMENT = 64; // of everything that the runtime is given

/** What the runtime refuses: `status` is one of the statuses of tenon.h in words, and `message` the runtime's text. */
export class TenonError extends Error {
  constructor(status, message) {
    super(message);
    this.name = "TenonError";
    this.status = STATUSES[status] ?? STATUSES[INTERNAL];
  }

  /** With a status in words. */
  static of(status, message) {
    return new TenonError(STATUSES.indexOf(status), message);
  }
}

export const invalid = (message) => new TenonError(INVALID_ARGUMENT, message);
export const bytesOf = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
const product = (shape) => shape.reduce((size, each) => size * each, 1);

// ---- the runtime's memory -------------------------------------------------------------------------------------------

// Growing memory detaches views of it, so each access makes its own.
class Memory {
  constructor(exports) {
    this.exports = exports;
  }

  get bytes() {
    return new Uint8Array(this.exports.memory.buffer);
  }
  get view() {
    return new DataView(this.exports.memory.buffer);
  }

  // Pointers are signed numbers in JavaScript's view of WebAssembly.
  pointer(at) {
    return this.view.getUint32(at, true);
  }
  int32(at) {
    return this.view.getInt32(at, true);
  }
  int64(at) {
    return Number(this.view.getBigInt64(at, true));
  }

  text(pointer) {
    const from = pointer >>> 0;
    const bytes = this.bytes;
    return new TextDecoder().decode(bytes.slice(from, bytes.indexOf(0, from)));
  }

  allocate(size) {
    const whole = Math.ceil((size + 1) / ALIGNMENT) * ALIGNMENT;
    const memory = whole < 2 ** 32 ? this.exports.tenon_allocate(ALIGNMENT, whole) >>> 0 : 0;
    if (memory === 0) throw new TenonError(5, `there is no memory for ${size} bytes`);
    return memory;
  }
  free(pointer) {
    this.exports.tenon_release_memory(pointer);
  }

  copyIn(bytes) {
    const memory = this.allocate(bytes.byteLength);
    this.bytes.set(bytes, memory);
    return memory;
  }

  copyOut(Type, pointer, count) {
    const from = pointer >>> 0;
    return new Type(this.bytes.slice(from, from + count * Type.BYTES_PER_ELEMENT).buffer);
  }
}

// ---- the system that the C library asks ------------------------------------------------------------------------------

// The imports of tenon.wasm: time, random bytes, and what it prints when it ends.
function systemFor(memory, random) {
  const OK = 0;
  const UNSUPPORTED = 58;
  let line = "";
  return {
    clock_time_get(clock, precision, to) {
      memory().view.setBigUint64(to, BigInt(Math.round(performance.now() * 1e6)), true);
      return OK;
    },
    random_get(to, size) {
      const most = 65536; // that browsers give at a time
      for (let done = 0; done < size; done += most) {
        const piece = random.getRandomValues(new Uint8Array(Math.min(most, size - done)));
        memory().bytes.set(piece, to + done); // not in place: threads may share that memory
      }
      return OK;
    },
    fd_write(file, pieces, count, written) {
      let bytes = 0;
      for (let i = 0; i < count; ++i) {
        const [from, size] = [memory().pointer(pieces + 8 * i), memory().pointer(pieces + 8 * i + 4)];
        line += new TextDecoder().decode(memory().bytes.slice(from, from + size));
        bytes += size;
      }
      const lines = line.split("\n");
      line = lines.pop();
      for (const each of lines) console.error(each);
      memory().view.setUint32(written, bytes, true);
      return OK;
    },
    fd_seek: () => UNSUPPORTED,
    fd_close: () => UNSUPPORTED,
  };
}

// ---- code -----------------------------------------------------------------------------------------------------------

// What a kernel's code may use, by its own names: the memory, the stack and the table of the runtime, and functions of
// runtime/functions.h, of the C library, and of the compiler's (a product of 128 bits).
const KERNEL_FUNCTIONS = ["memcpy", "memmove", "memset", "fma", "fmaf", "fmod", "fmodf", "__multi3"].concat(
  ["lgamma", "digamma", "trigamma"].flatMap((name) => [`tenon_${name}_f64`, `tenon_${name}_f32`]),
);

// A module with one instruction of relaxed SIMD: f32x4.relaxed_madd.
export const RELAXED_MADD = Uint8Array.of(
  ...[0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 19, 1, 17, 0],
  ...[65, 0, 253, 17, 65, 0, 253, 17, 65, 0, 253, 17, 253, 133, 2, 11],
);

// The runtime's imports for kernels (js/runtime/loader.cpp): modules over its memory, whose functions it calls by their
// places in its table.
function loaderFor(memory) {
  const vacant = [];
  const tableOf = () => memory().exports.__indirect_function_table;
  const functionsOf = (bytes) => {
    const { exports } = memory();
    const env = { __linear_memory: exports.memory, __stack_pointer: exports.__stack_pointer };
    // Addresses in the code are those of the memory, and places those of the table.
    env.__memory_base = env.__table_base = new WebAssembly.Global({ value: "i32" }, 0);
    env.__indirect_function_table = tableOf();
    for (const name of KERNEL_FUNCTIONS) env[name] = exports[name];
    return new WebAssembly.Instance(new WebAssembly.Module(bytes), { env }).exports;
  };
  return {
    reserve: () => vacant.pop() ?? tableOf().grow(1),
    instantiate(at, size, places, count, text, capacity) {
      try {
        const functions = functionsOf(memory().bytes.slice(at, at + size));
        const table = tableOf();
        for (let i = 0; i < count; ++i) {
          const place = memory().pointer(places + 4 * i);
          if (place >= table.length) table.grow(place + 1 - table.length); // in a thread, which reserves none
          table.set(place, functions[i]);
        }
        return 1;
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

/** The module of what Tenon.load takes. A URL is relative to this file. */
export async function compile(source) {
  if (source instanceof WebAssembly.Module) return source;
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return WebAssembly.compile(source);
  const url = new URL(source, import.meta.url);
  if (url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    return WebAssembly.compile(await readFile(url));
  }
  const response = await fetch(url);
  if (!response.ok) throw new TenonError(4, `cannot load ${url}: ${response.status} ${response.statusText}`);
  // While it arrives, where the server says what it is.
  const isTyped = response.headers.get("Content-Type") === "application/wasm";
  return isTyped ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer());
}

/** Likewise for so many threads; undefined: tenon.wasm, or the one with threads where pages may share memory. */
export function moduleOf(source, threads = 1) {
  const canShare = globalThis.crossOriginIsolated ?? globalThis.SharedArrayBuffer !== undefined; // Node may always
  return compile(source ?? (threads > 1 && canShare ? "tenon-threads.wasm" : "tenon.wasm"));
}

// ---- tensors --------------------------------------------------------------------------------------------------------

// As a structure of tenon.h: data, dtype, rank, shape, strides.
export const TENSOR_BYTES = 20;

function typeOf(values, wanted) {
  if (DTYPES[wanted][1] === values.constructor) return wanted; // also for types that share their arrays
  const found = DTYPES.findIndex(([, Type]) => Type === values.constructor);
  if (found < 0) throw invalid(`${values.constructor.name} holds elements of no dtype`);
  return found;
}

// Numbers, as an array of the dtype that is wanted.
function arrayOf(numbers, wanted) {
  const [name, Type] = DTYPES[wanted];
  if (Type === Uint16Array) throw invalid(`numbers cannot become ${name} here; give its bits as a Uint16Array`);
  return Type === BigInt64Array ? Type.from(numbers, BigInt) : Type.from(numbers);
}

// {data, shape} of what a caller gives: that, a typed array, numbers, or a number.
export function given(value, info) {
  const dtype = DTYPES.findIndex(([name]) => name === info.dtype);
  const isTensor = typeof value === "object" && value !== null && "data" in value;
  let data = isTensor ? value.data : value;
  if (typeof data === "boolean") data = Number(data);
  if (typeof data === "number" || typeof data === "bigint") data = [data];
  if (Array.isArray(data)) data = arrayOf(data, dtype);
  if (!ArrayBuffer.isView(data) || data instanceof DataView)
    throw invalid(`'${info.name}' is ${info.dtype}[${info.shape}]: give a typed array, numbers, or {data, shape}`);
  const shape = isTensor && value.shape !== undefined ? [...value.shape] : shapeFor(info, data.length);
  if (product(shape) !== data.length)
    throw invalid(`'${info.name}' has ${data.length} elements, and shape [${shape}] has ${product(shape)}`);
  return { data, dtype: typeOf(data, dtype), shape };
}

function shapeFor(info, length) {
  if (info.shape.every((size) => typeof size === "number") && product(info.shape) === length) return info.shape;
  if (info.shape.length === 1) return [length];
  throw invalid(`'${info.name}' is ${info.dtype}[${info.shape}], and ${length} elements do not say which shape: give {data, shape}`);
}

// The runtime itself; one for all programs of a Tenon.
export class Runtime {
  threads = 1; // that run loops; more by thread.mjs

  constructor(exports) {
    this.exports = exports;
    this.memory = new Memory(exports);
  }

  /** `source` as moduleOf takes it. */
  static async load(source, threads = 1) {
    const module = await moduleOf(source, threads);
    const isShared = WebAssembly.Module.imports(module).some(({ kind }) => kind === "memory");
    // js/CMakeLists.txt says the same of its size.
    const shared = isShared ? new WebAssembly.Memory({ initial: 64, maximum: 65536, shared: true }) : undefined;
    const runtime = await Runtime.over(module, shared);
    runtime.exports._initialize();
    if (isShared && threads > 1) await (await import("./thread.mjs")).startThreads(runtime, module, shared, threads - 1);
    return runtime;
  }

  /** An instance of the module, over memory that threads share or its own; `loader` makes its imports for kernels. */
  static async over(module, shared, loader = loaderFor) {
    let memory = null;
    const random = globalThis.crypto ?? (await import("node:crypto")).webcrypto; // Node 18 has no global one
    const imports = { wasi_snapshot_preview1: systemFor(() => memory, random), tenon: loader(() => memory) };
    if (shared !== undefined) imports.env = { memory: shared };
    const runtime = new Runtime((await WebAssembly.instantiate(module, imports)).exports);
    memory = runtime.memory;
    return runtime;
  }

  check(status) {
    if (status !== 0) throw new TenonError(status, this.memory.text(this.exports.tenon_error()));
  }

  // Calls `body` with `size` bytes of memory, zero at first.
  with(size, body) {
    const memory = this.memory.allocate(size);
    this.memory.bytes.fill(0, memory, memory + size);
    try {
      return body(memory);
    } finally {
      this.memory.free(memory);
    }
  }

  withText(text, body) {
    const bytes = new TextEncoder().encode(`${text}\0`);
    return this.with(bytes.length, (at) => {
      this.memory.bytes.set(bytes, at);
      return body(at);
    });
  }

  // A tensor of the runtime's from {data, dtype, shape}; free() its memory.
  makeTensor({ data, dtype, shape }) {
    const bytes = bytesOf(data);
    const block = this.memory.allocate(TENSOR_BYTES + 8 + 8 * shape.length + ALIGNMENT + bytes.byteLength);
    const sizes = block + 24;
    const elements = Math.ceil((sizes + 8 * shape.length) / ALIGNMENT) * ALIGNMENT;
    const view = this.memory.view;
    [elements, dtype, shape.length, sizes, 0].forEach((word, i) => view.setUint32(block + 4 * i, word, true));
    shape.forEach((size, i) => view.setBigInt64(sizes + 8 * i, BigInt(size), true));
    this.memory.bytes.set(bytes, elements);
    return block;
  }

  // What a program wrote to a tensor that makeTensor made, if it updates its input.
  readBack(tensor, data) {
    const from = this.memory.pointer(tensor);
    bytesOf(data).set(this.memory.bytes.subarray(from, from + data.byteLength));
  }

  // A copy of what a tensor of the runtime's has.
  readTensor(at) {
    const [name, Type] = DTYPES[this.memory.int32(at + 4)];
    const sizes = this.memory.pointer(at + 12);
    const shape = Array.from({ length: this.memory.int32(at + 8) }, (_, i) => this.memory.int64(sizes + 8 * i));
    return { dtype: name, shape, data: this.memory.copyOut(Type, this.memory.pointer(at), product(shape)) };
  }

  // Descriptions 0 to count - 1 by a function like tenon_input_info. A size that is known later is its expression.
  describe(owner, count, function_) {
    return this.with(16, (at) =>
      Array.from({ length: count }, (_, number) => {
        this.check(function_(owner, number, at));
        const dims = this.memory.pointer(at + 12);
        const shape = Array.from({ length: this.memory.int32(at + 8) }, (__, i) => {
          const size = this.memory.int64(dims + 16 * i);
          return size < 0 ? this.memory.text(this.memory.pointer(dims + 16 * i + 8)) : size;
        });
        return { name: this.memory.text(this.memory.pointer(at)), dtype: DTYPES[this.memory.int32(at + 4)][0], shape };
      }),
    );
  }

  // What a function that takes a place for a pointer makes.
  made(call) {
    return this.with(4, (at) => {
      this.check(call(at));
      return this.memory.pointer(at);
    });
  }
}
