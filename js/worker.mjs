// The runtime in a worker: a page stays responsive while models run. The same calls as tenon.mjs, each a promise.
//
//     const tenon = await WorkerTenon.load();
//     const program = await tenon.open(bytes);                 // or tenon.openFrom(url, {onProgress, signal})
//     const [scores] = await program.run([pixels], {signal});  // an AbortSignal
//     tenon.terminate();
//
// This file is also what the worker runs.
import { moduleOf } from "./runtime.mjs";
import { Tenon, TenonError } from "./tenon.mjs";

const WORKER = "tenon.worker"; // what its worker is called

// ---- in the page ----------------------------------------------------------------------------------------------------

async function startWorker() {
  const url = new URL(import.meta.url);
  if (globalThis.Worker) return new Worker(url, { type: "module", name: WORKER });
  const { Worker: NodeWorker } = await import("node:worker_threads");
  return new NodeWorker(url, { workerData: WORKER });
}

// One worker and the calls that wait for its answers.
class Connection {
  #worker;
  #next = 0;
  #waiting = new Map(); // {resolve, reject, onProgress} by number

  constructor(worker) {
    this.#worker = worker;
    const fail = (error) => this.close(new Error(`the worker failed: ${error.message ?? error}`));
    if (worker.on) {
      worker.on("message", (answer) => this.#receive(answer));
      worker.on("error", fail);
    } else {
      worker.onmessage = ({ data }) => this.#receive(data);
      worker.onerror = fail;
    }
  }

  /** An aborted call rejects at once. The worker ends a load then, and skips a run that has not begun. */
  call(method, args, { signal, onProgress, transfer = [] } = {}) {
    const number = this.#next++;
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      if (this.#worker === null) return reject(new TenonError(1, "the worker is terminated"));
      const abort = () => {
        this.#worker?.postMessage({ abort: number });
        this.#waiting.delete(number);
        reject(signal.reason);
      };
      const done = (settle) => (value) => {
        signal?.removeEventListener("abort", abort);
        settle(value);
      };
      signal?.addEventListener("abort", abort, { once: true });
      this.#waiting.set(number, { resolve: done(resolve), reject: done(reject), onProgress });
      this.#worker.postMessage({ number, method, args, canAbort: signal !== undefined }, transfer);
    });
  }

  #receive({ number, progress, result, error }) {
    const waiting = this.#waiting.get(number);
    if (waiting === undefined) return; // it was aborted
    if (progress) return waiting.onProgress?.(progress);
    this.#waiting.delete(number);
    if (error === undefined) return waiting.resolve(result);
    waiting.reject(error.status === undefined ? new Error(error.message) : TenonError.of(error.status, error.message));
  }

  close(reason) {
    this.#worker?.terminate();
    this.#worker = null;
    for (const { reject } of this.#waiting.values()) reject(reason);
    this.#waiting.clear();
  }
}

/** A Tenon in a worker of its own. */
export class WorkerTenon {
  #connection;

  constructor(connection, about) {
    this.#connection = connection;
    Object.assign(this, about); // version, threads
  }

  /** As Tenon.load; a URL is relative to this file. */
  static async load(source, { threads } = {}) {
    const connection = new Connection(await startWorker());
    try {
      const module = await moduleOf(source, threads); // compiled here while the worker starts
      return new WorkerTenon(connection, await connection.call("load", [module, { threads }]));
    } catch (error) {
      connection.close(error);
      throw error;
    }
  }

  memoryBytes() {
    return this.#connection.call("memoryBytes", []);
  }

  /** Takes a copy of the bytes; `transfer: true` moves an ArrayBuffer to the worker instead. */
  async open(bytes, { native, transfer = false } = {}) {
    const moved = transfer ? [ArrayBuffer.isView(bytes) ? bytes.buffer : bytes] : [];
    return new WorkerProgram(this.#connection, await this.#connection.call("open", [bytes, { native }], { transfer: moved }));
  }

  /** The worker fetches a URL by itself. A Blob goes, too; a stream where the engine can transfer one. */
  async openFrom(source, { native, onProgress, signal } = {}) {
    const from = source instanceof URL || typeof source === "string" ? absolute(source) : source;
    const transfer = source instanceof ReadableStream ? [source] : [];
    const about = await this.#connection.call("openFrom", [from, { native }], { onProgress, signal, transfer });
    return new WorkerProgram(this.#connection, about);
  }

  /** Ends the worker at once, whatever it does; calls that wait are rejected. */
  terminate() {
    this.#connection.close(new DOMException("the worker was terminated", "AbortError"));
  }
}

// A page's URLs are relative to the page, and its worker's to this file.
const absolute = (url) => new URL(url, globalThis.document?.baseURI ?? import.meta.url).href;

/** A Program of the worker. */
export class WorkerProgram {
  #connection;
  #number;

  constructor(connection, { number, ...about }) {
    this.#connection = connection;
    this.#number = number;
    Object.assign(this, about); // name, entries, inputs, outputs, symbols
    this.states = {
      list: () => this.#call("stateList", []),
      get: (name) => this.#call("getState", [name]),
      set: (name, value) => this.#call("setState", [name, value]),
      reset: () => this.#call("resetStates", []),
    };
  }

  /** As Program.run; inputs are copied, so that a model that writes to one writes to the copy. */
  run(inputs, { seed, telemetry, signal } = {}) {
    return this.#call("run", [inputs, { seed, telemetry }], { signal });
  }
  events() {
    return this.#call("events", []);
  }
  memory() {
    return this.#call("memory", []);
  }
  describe() {
    return this.#call("describe", []);
  }
  async entry(name) {
    return new WorkerProgram(this.#connection, await this.#call("entry", [name]));
  }
  close() {
    return this.#call("close", []);
  }

  #call(method, args, options) {
    return this.#connection.call(method, [this.#number, ...args], options);
  }
}

// ---- in the worker --------------------------------------------------------------------------------------------------

function serve(post) {
  let tenon = null;
  const programs = []; // by number; {program, file}
  const stopped = new Map(); // AbortControllers of calls that are not answered
  const about = (program, file) => {
    programs.push({ program, file: file ?? programs.length });
    const { name, entries, inputs, outputs, symbols } = program;
    return { number: programs.length - 1, name, entries, inputs, outputs, symbols };
  };
  const of = (number) => programs[number].program;
  const methods = {
    async load(source, options) {
      tenon = await Tenon.load(source, options);
      return { version: tenon.version, threads: tenon.threads };
    },
    memoryBytes: () => tenon.memoryBytes,
    open: (bytes, options) => about(tenon.open(bytes, options)),
    async openFrom(source, options, { number, signal }) {
      const onProgress = (progress) => post({ number, progress });
      return about(await tenon.openFrom(source, { ...options, onProgress, signal }));
    },
    entry: (number, name) => about(of(number).entry(name), programs[number].file),
    run: (number, inputs, options) => of(number).run(inputs, options),
    events: (number) => of(number).events,
    memory: (number) => of(number).memory,
    describe: (number) => of(number).describe(),
    stateList: (number) => of(number).states.list,
    getState: (number, name) => of(number).states.get(name),
    setState: (number, name, value) => of(number).states.set(name, value),
    resetStates: (number) => of(number).states.reset(),
    close: (number) => of(programs[number].file).close(),
  };
  return async ({ number, method, args, canAbort, abort }) => {
    if (abort !== undefined) return stopped.get(abort)?.abort();
    const controller = new AbortController();
    stopped.set(number, controller);
    try {
      if (canAbort) await new Promise((resolve) => setTimeout(resolve)); // an abort that came already is seen
      controller.signal.throwIfAborted();
      const result = await methods[method](...args, { number, signal: controller.signal });
      post({ number, result }, Array.isArray(result) ? result.flatMap(({ data }) => data?.buffer ?? []) : []);
    } catch (error) {
      post({ number, error: { message: error.message, status: error.status } });
    } finally {
      stopped.delete(number);
    }
  };
}

if (globalThis.DedicatedWorkerGlobalScope && globalThis.name === WORKER) {
  const receive = serve((answer, transfer) => postMessage(answer, transfer));
  onmessage = ({ data }) => receive(data);
} else if (!globalThis.document && globalThis.process) {
  const { parentPort, workerData } = await import("node:worker_threads");
  if (workerData === WORKER) parentPort.on("message", serve((answer, transfer) => parentPort.postMessage(answer, transfer)));
}
