// Runs compiled models (.tenon) in browsers and in Node 18 or newer. No dependencies.
//
//     const tenon = await Tenon.load();                       // tenon.wasm, from beside this file
//     const program = tenon.open(bytes);                      // a .tenon file
//     const [scores] = program.run([pixels]);                 // {name, dtype, shape, data}
//     program.close();
//
// The memory of a program is the runtime's: close() gives it back. What run() and the states return are copies.
// docs/web.md is the manual.
import { Runtime, TENSOR_BYTES, TenonError, bytesOf, compile, given, invalid } from "./runtime.mjs";

export { TenonError };

const IO = 4; // a status of tenon.h

const SECTIONS = ["", "graph", "program", "weights", "native", "entries", "states", "device program", "device code"];

// [{kind, name, offset, size}]: the table of format/container.h. The runtime verifies the file afterwards.
function sectionsOf(bytes) {
  const [HEADER, SECTION] = [64, 64];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < HEADER) return [];
  const count = Math.min(view.getUint32(24, true), Math.floor((bytes.length - HEADER) / SECTION));
  return Array.from({ length: count }, (_, i) => {
    const at = HEADER + i * SECTION;
    const name = new TextDecoder().decode(bytes.slice(at + 8, at + 40)).replace(/\0.*/s, "");
    const [offset, size] = [40, 48].map((word) => Number(view.getBigUint64(at + word, true)));
    return { kind: SECTIONS[view.getUint32(at, true)] ?? "unknown", name, offset, size };
  });
}

const isCode = ({ kind, name }) => kind === "native" && /^([^:]*:)?wasm32/.test(name);

// ---- what users see -------------------------------------------------------------------------------------------------

/** The runtime. Programs of one Tenon share its memory. */
export class Tenon {
  #runtime;

  constructor(runtime) {
    this.#runtime = runtime;
  }

  /**
   * `source`: where tenon.wasm is (a URL), its bytes, or a WebAssembly.Module. `threads`: how many run loops; one where
   * the page is not isolated, and may share no memory.
   */
  static async load(source, { threads = 1 } = {}) {
    return new Tenon(await Runtime.load(source, threads));
  }

  get version() {
    return this.#runtime.memory.text(this.#runtime.exports.tenon_version());
  }

  /** How many threads run loops. */
  get threads() {
    return this.#runtime.threads;
  }

  /** Bytes of WebAssembly memory; it never shrinks. */
  get memoryBytes() {
    return this.#runtime.exports.memory.buffer.byteLength;
  }

  /**
   * Loads and verifies a .tenon file, and takes a copy of it. Throws a TenonError. `native: false` makes no code of the
   * file executable: it runs on the portable interpreter, slowly.
   */
  open(bytes, { native = true } = {}) {
    if (!(bytes instanceof ArrayBuffer) && !ArrayBuffer.isView(bytes))
      throw invalid("open takes the bytes of a .tenon file: an ArrayBuffer or a typed array");
    const file = ArrayBuffer.isView(bytes) ? bytesOf(bytes) : new Uint8Array(bytes);
    return Program.open(this.#runtime, this.#runtime.memory.copyIn(file), file.length, native);
  }

  /**
   * Opens what streams in: a URL (or what `fetch` takes), a Response, a Blob, or a stream of bytes. They go to the
   * runtime's memory as they arrive. `onProgress({loaded, total})` is called on the way, with `total` undefined where
   * nobody says it; `signal`, an AbortSignal, ends it.
   */
  async openFrom(source, { native = true, onProgress, signal } = {}) {
    const { at, size } = await this.#received(source, onProgress, signal);
    return Program.open(this.#runtime, at, size, native);
  }

  async #received(source, onProgress, signal) {
    const { stream, total } = await streamOf(source, signal);
    const { memory } = this.#runtime;
    let [at, size, capacity] = [0, 0, 0];
    const reader = stream.getReader();
    const cancel = () => reader.cancel(signal.reason).catch(() => {});
    signal?.addEventListener("abort", cancel, { once: true });
    try {
      for (;;) {
        signal?.throwIfAborted();
        const { done, value } = await reader.read();
        signal?.throwIfAborted();
        if (done) break;
        if (size + value.length > capacity || at === 0) {
          capacity = Math.max(total ?? 0, size + value.length, 2 * size);
          const larger = memory.allocate(capacity);
          memory.bytes.copyWithin(larger, at, at + size);
          memory.free(at);
          at = larger;
        }
        memory.bytes.set(value, at + size);
        size += value.length;
        onProgress?.({ loaded: size, total });
      }
      return { at: at || memory.allocate(0), size };
    } catch (error) {
      memory.free(at);
      cancel();
      throw error;
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }
}

// {stream, total} of what openFrom takes.
async function streamOf(source, signal) {
  if (source instanceof ReadableStream) return { stream: source };
  if (source instanceof Blob) return { stream: source.stream(), total: source.size };
  const response = source instanceof Response ? source : await fetch(source, { signal });
  if (!response.ok) throw new TenonError(IO, `cannot load ${response.url}: ${response.status} ${response.statusText}`);
  const length = response.headers.get("Content-Length");
  const isPlain = length !== null && !response.headers.get("Content-Encoding"); // else it counts what is compressed
  return { stream: response.body, total: isPlain ? Number(length) : undefined };
}

// Options begin with their size: tenon_load_options with no_native set, and tenon_context_options.
const LOAD_OPTIONS_BYTES = 24;
const CONTEXT_OPTIONS_BYTES = 48;
const EVENT_BYTES = 40;

/** A program of a file: its first, or by entry() another. The entries of a file share its states. */
export class Program {
  #runtime;
  #file; // {bytes, sections, states, programs}: what the entries of a file share
  #program;
  #entry; // its name in the file
  #context = 0;
  #telemetry = false; // of the context
  #given = []; // tensors of the runtime's that are the context's inputs

  constructor(runtime, file, program, entry) {
    this.#runtime = runtime;
    this.#file = file;
    this.#program = program;
    const { exports, memory } = runtime;
    this.#entry = entry ?? this.entries[0];
    const describe = (what) =>
      runtime.describe(program, exports[`tenon_${what}_count`](program), exports[`tenon_${what}_info`]);
    this.name = memory.text(exports.tenon_program_name(program));
    this.inputs = describe("input");
    this.outputs = describe("output");
    this.symbols = Array.from({ length: exports.tenon_symbol_count(program) }, (_, i) =>
      runtime.with(24, (at) => {
        runtime.check(exports.tenon_symbol_info(program, i, at));
        const [low, high] = [memory.int64(at + 8), memory.int64(at + 16)];
        return { name: memory.text(memory.pointer(at)), low, high: high < 2 ** 63 ? high : Infinity };
      }),
    );
  }

  /**
   * The program of a module that `tenon web` made: the runtime and the file in one. `source` as in Tenon.load, but a URL
   * is relative to the page.
   */
  static async load(source, options) {
    const isPlace = source instanceof URL || typeof source === "string";
    const module = await compile(isPlace ? new URL(source, globalThis.document?.baseURI ?? import.meta.url) : source);
    const [file] = WebAssembly.Module.customSections(module, "tenon.file");
    if (file === undefined) throw invalid("the module has no model in it: `tenon web` makes one that has");
    return (await Tenon.load(module)).open(file, options);
  }

  /** Of `size` bytes of the runtime's memory, which become the program's. */
  static open(runtime, bytes, size, native) {
    const { exports, memory } = runtime;
    const sections = sectionsOf(memory.bytes.subarray(bytes, bytes + size));
    const file = { bytes, sections, states: 0, programs: [] };
    let program = 0;
    try {
      program = runtime.with(LOAD_OPTIONS_BYTES, (options) => {
        memory.view.setUint32(options, LOAD_OPTIONS_BYTES, true);
        memory.view.setBigInt64(options + 8, BigInt(!native || !file.sections.some(isCode)), true); // no_native
        return runtime.made((at) => exports.tenon_load_memory(bytes, size, options, at));
      });
      file.states = runtime.made((at) => exports.tenon_states_create(program, 0, at));
      const first = new Program(runtime, file, program);
      file.programs.push(first);
      return first;
    } catch (error) {
      exports.tenon_states_free(file.states);
      exports.tenon_program_free(program);
      memory.free(file.bytes);
      throw error;
    }
  }

  /** The names of the file's programs. */
  get entries() {
    const { exports, memory } = this.#runtime;
    return Array.from({ length: exports.tenon_entry_count(this.#open()) }, (_, i) =>
      memory.text(exports.tenon_entry_name(this.#program, i)),
    );
  }

  /** Another program of the file; it is closed with the first. */
  entry(name) {
    const entry = this.#runtime.withText(name, (text) =>
      this.#runtime.made((at) => this.#runtime.exports.tenon_program_entry(this.#open(), text, at)),
    );
    const program = new Program(this.#runtime, this.#file, entry, name);
    this.#file.programs.push(program);
    return program;
  }

  /** What the model keeps from run to run. */
  get states() {
    this.#open();
    return new States(this.#runtime, this.#file);
  }

  /**
   * Runs the program once. Inputs are an array, or an object by the names of inputs; each is a typed array, numbers, or
   * {data, shape} where the sizes are symbols. Returns an array of {name, dtype, shape, data}. A model that writes to an
   * input writes to the typed array. `seed`: that of random numbers. `telemetry` notes the time of each task: see events.
   */
  run(inputs = [], { seed, telemetry = false } = {}) {
    const { exports } = this.#runtime;
    if (telemetry !== this.#telemetry) this.#freeContext();
    this.#telemetry = telemetry;
    const values = this.#listOf(inputs).map((value, i) => (value === undefined ? value : given(value, this.inputs[i])));
    if (this.#given.some((_, i) => values[i] === undefined)) this.#freeContext(); // an input cannot be taken back
    const context = this.#contextOf();
    values.forEach((value, i) => value && this.#setInput(context, i, value));
    if (seed !== undefined) this.#runtime.check(exports.tenon_set_seed(context, BigInt(seed)));
    this.#runtime.check(exports.tenon_run(context));
    values.forEach((value, i) => value && this.#runtime.readBack(this.#given[i], value.data));
    return this.outputs.map(({ name }, i) => ({ name, ...this.#output(context, i) }));
  }

  /** The tasks of the last run with telemetry, in order; times are milliseconds. -1: not known. */
  get events() {
    const { exports, memory } = this.#runtime;
    const context = this.#contextOf();
    return this.#runtime.with(EVENT_BYTES, (at) =>
      Array.from({ length: exports.tenon_event_count(context) }, (_, i) => {
        this.#runtime.check(exports.tenon_get_event(context, i, at));
        const [start, end, bytes, flops] = [8, 16, 24, 32].map((offset) => memory.int64(at + offset));
        const [task, kind] = [0, 4].map((offset) => memory.text(memory.pointer(at + offset)));
        return { task, kind, start: start / 1e6, end: end / 1e6, bytes, flops };
      }),
    );
  }

  /** Bytes of the program's temporaries, scratch and results: now, at most so far, and of the plan of the last run. */
  get memory() {
    const { exports, memory } = this.#runtime;
    return this.#runtime.with(32, (at) => {
      this.#runtime.check(exports.tenon_context_memory(this.#contextOf(), at));
      const [current, peak, arena] = [0, 8, 16].map((offset) => memory.int64(at + offset));
      return { current, peak, arena };
    });
  }

  /**
   * What there is to draw: tasks, tensors, loops and the plan of memory, as runtime/description.h says, and `sections`
   * of the file. The plan follows from the sizes of the last run. Only tenon-inspect.wasm can do it.
   */
  describe() {
    const { exports, memory } = this.#runtime;
    if (exports.tenon_describe_program === undefined)
      throw invalid('describe() is a function of tenon-inspect.wasm: load it with Tenon.load("tenon-inspect.wasm")');
    const graph = this.#file.sections.find(({ kind, name }) => kind === "graph" && (name || this.#entry) === this.#entry);
    const [bytes, size] = graph ? [this.#file.bytes + graph.offset, graph.size] : [0, 0];
    const json = this.#runtime.made((at) => exports.tenon_describe_program(this.#open(), bytes, size, at));
    try {
      return { ...JSON.parse(memory.text(json)), sections: this.#file.sections };
    } finally {
      memory.free(json);
    }
  }

  /** Frees all programs of the file, and its states. Nothing of them may be used afterwards. */
  close() {
    const { exports, memory } = this.#runtime;
    for (const program of this.#file.programs) program.#free();
    this.#file.programs = [];
    exports.tenon_states_free(this.#file.states);
    memory.free(this.#file.bytes);
    this.#file.states = this.#file.bytes = 0;
  }

  #open() {
    if (this.#program === 0) throw invalid("the program is closed");
    return this.#program;
  }

  #free() {
    this.#freeContext();
    this.#runtime.exports.tenon_program_free(this.#program);
    this.#program = 0;
  }

  #freeContext() {
    this.#runtime.exports.tenon_context_free(this.#context);
    this.#context = 0;
    this.#given.forEach((tensor) => this.#runtime.memory.free(tensor));
    this.#given = [];
  }

  #setInput(context, number, value) {
    const tensor = this.#runtime.makeTensor(value);
    try {
      this.#runtime.check(this.#runtime.exports.tenon_set_input(context, number, tensor));
    } catch (error) {
      this.#runtime.memory.free(tensor);
      throw error;
    }
    if (this.#given[number] !== undefined) this.#runtime.memory.free(this.#given[number]);
    this.#given[number] = tensor;
  }

  #contextOf() {
    const program = this.#open();
    const { exports, memory } = this.#runtime;
    this.#context ||= this.#runtime.with(CONTEXT_OPTIONS_BYTES, (options) => {
      memory.view.setUint32(options, CONTEXT_OPTIONS_BYTES, true);
      memory.view.setBigInt64(options + 24, BigInt(this.#telemetry), true);
      return this.#runtime.made((at) => exports.tenon_context_create_with(program, options, this.#file.states, at));
    });
    return this.#context;
  }

  #listOf(inputs) {
    if (!Array.isArray(inputs)) {
      const unknown = Object.keys(inputs).find((name) => !this.inputs.some((input) => input.name === name));
      if (unknown !== undefined)
        throw invalid(`there is no input '${unknown}'; the inputs are ${this.inputs.map(({ name }) => name).join(", ")}`);
      return this.inputs.map(({ name }) => inputs[name]);
    }
    if (inputs.length > this.inputs.length)
      throw invalid(`the program has ${this.inputs.length} inputs, got ${inputs.length}`);
    return inputs;
  }

  #output(context, number) {
    return this.#runtime.with(TENSOR_BYTES, (at) => {
      this.#runtime.check(this.#runtime.exports.tenon_get_output(context, number, at));
      return this.#runtime.readTensor(at);
    });
  }
}

/** The states of a file, by name: tensors that its programs update. */
export class States {
  #runtime;
  #file;

  constructor(runtime, file) {
    this.#runtime = runtime;
    this.#file = file;
    this.list = runtime.describe(file.states, runtime.exports.tenon_state_count(file.states), runtime.exports.tenon_state_info);
  }

  /** {dtype, shape, data}: a copy. */
  get(name) {
    return this.#runtime.with(TENSOR_BYTES, (at) => {
      this.#runtime.check(this.#runtime.exports.tenon_get_state(this.#states(), this.#find(name), at));
      return this.#runtime.readTensor(at);
    });
  }

  set(name, value) {
    const number = this.#find(name);
    const tensor = this.#runtime.makeTensor(given(value, this.list[number]));
    try {
      this.#runtime.check(this.#runtime.exports.tenon_set_state(this.#states(), number, tensor));
    } finally {
      this.#runtime.memory.free(tensor);
    }
  }

  /** To what they are in the file. */
  reset() {
    this.#runtime.check(this.#runtime.exports.tenon_states_reset(this.#states()));
  }

  #find(name) {
    return this.#runtime.withText(name, (text) =>
      this.#runtime.made((at) => this.#runtime.exports.tenon_find_state(this.#states(), text, at)),
    );
  }

  #states() {
    if (this.#file.states === 0) throw invalid("the program is closed");
    return this.#file.states;
  }
}
