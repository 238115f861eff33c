// How fast files and kernels run in Node and in browsers: bench/web.py calls these functions in both, and prints the table.
import * as kernels from "../build/web/kernels.mjs";
import { Tenon } from "../build/web/tenon.mjs";

const SECONDS = 2; // of runs
const ARRAYS = { f32: Float32Array, f64: Float64Array, i64: BigInt64Array, i32: Int32Array };

async function bytesAt(place) {
  if (globalThis.document) return (await fetch(place)).arrayBuffer();
  return (await import("node:fs/promises")).readFile(place);
}

const product = (shape) => shape.reduce((size, each) => size * each, 1);

/** {threads, times} of a file: ms to open it, of the first run, and of the fastest of the others. Inputs are all ones. */
export async function measureFile(place, threads) {
  const tenon = await Tenon.load(undefined, { threads });
  const bytes = await bytesAt(place);
  const start = performance.now();
  const program = tenon.open(bytes);
  const opened = performance.now() - start;
  const inputs = program.inputs.map(({ dtype, shape }) =>
    new ARRAYS[dtype](product(shape)).fill(dtype === "i64" ? 1n : 1),
  );
  const times = [];
  for (const end = performance.now() + 1000 * SECONDS; times.length < 2 || performance.now() < end; ) {
    const from = performance.now();
    program.run(inputs);
    times.push(performance.now() - from);
  }
  program.close();
  return { threads: tenon.threads, times: [opened, times[0], Math.min(...times.slice(1))] };
}

/** Likewise of a matrix product that is written in JavaScript: ms to load the compiler, and to compile and run it first. */
export async function measureKernel(size) {
  const { load, Symbol, Tensor } = kernels;
  const start = performance.now();
  await load();
  const loaded = performance.now();
  const [m, k, n] = ["m", "k", "n"].map((name) => new Symbol(name));
  const ones = () => new Tensor(new Float32Array(size * size).fill(1), [size, size]);
  const matmul = ones().to(m, k).mul(ones().to(k, n)).sum(k);
  matmul.compute();
  const first = performance.now();
  const { seconds } = matmul.benchmark(SECONDS);
  return { threads: 1, times: [loaded - start, first - loaded, seconds * 1000] };
}
