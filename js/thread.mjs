// Threads that help with loops: workers, each with an instance of tenon-threads.wasm over the memory of the one that runs
// programs. This file is also what a worker runs.
import { Runtime } from "./runtime.mjs";

const WORKER = "tenon.thread"; // what a worker is called
const STACK_BYTES = 1 << 20;

// ---- where programs run ---------------------------------------------------------------------------------------------

// A worker is ready when it says so. Afterwards it waits for loops, and hears nothing.
async function startThread(start) {
  const url = new URL(import.meta.url);
  if (globalThis.Worker) {
    const worker = new Worker(url, { type: "module", name: WORKER });
    worker.postMessage(start);
    return new Promise((resolve, reject) => {
      worker.onmessage = resolve;
      worker.onerror = ({ message }) => reject(new Error(`a thread failed: ${message}`));
    });
  }
  const { Worker: NodeWorker } = await import("node:worker_threads");
  const worker = new NodeWorker(url, { workerData: { ...start, name: WORKER } });
  await new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
  worker.unref(); // it does not keep the process
}

/** Starts threads of a runtime whose memory is shared. */
export async function startThreads(runtime, module, shared, count) {
  const start = async () => {
    const stack = runtime.memory.allocate(STACK_BYTES) + STACK_BYTES; // it grows down
    const variables = runtime.memory.allocate(runtime.exports.__tls_size.value);
    await startThread({ module, shared, stack, variables });
  };
  await Promise.all(Array.from({ length: count }, start));
  runtime.exports.tenon_set_helpers(BigInt(count));
  runtime.threads += count;
}

// ---- in a worker ----------------------------------------------------------------------------------------------------

async function help({ module, shared, stack, variables }, ready) {
  const { exports } = await Runtime.over(module, shared);
  exports.__wasm_init_tls(variables);
  ready();
  for (;;) {
    exports.__stack_pointer.value = stack;
    try {
      exports.tenon_help(); // it returns only by a trap in code of a file
    } catch {
      exports.tenon_fail();
    }
  }
}

if (globalThis.DedicatedWorkerGlobalScope && globalThis.name === WORKER) {
  onmessage = ({ data }) => help(data, () => postMessage("ready"));
} else if (!globalThis.document && globalThis.process) {
  const { parentPort, workerData } = await import("node:worker_threads");
  if (workerData?.name === WORKER) await help(workerData, () => parentPort.postMessage("ready"));
}
