// How fast files run in Node: for each file of the command line, ms to open it, of the first run and of the fastest of
// the following ones. Inputs are all ones. $THREADS is how many threads run loops.
import { readFileSync } from "node:fs";
import { Tenon } from "../build/web/tenon.mjs";

const SECONDS = 2; // of runs of a file
const arrays = { f32: Float32Array, f64: Float64Array, i64: BigInt64Array, i32: Int32Array };

const tenon = await Tenon.load(undefined, { threads: Number(process.env.THREADS ?? 1) });
for (const path of process.argv.slice(2)) {
  const bytes = readFileSync(path);
  const start = performance.now();
  const program = tenon.open(bytes);
  const opened = performance.now() - start;
  const inputs = program.inputs.map(({ dtype, shape }) =>
    new arrays[dtype](shape.reduce((size, each) => size * each, 1)).fill(dtype === "i64" ? 1n : 1),
  );
  const times = [];
  for (const end = performance.now() + 1000 * SECONDS; times.length < 2 || performance.now() < end; ) {
    const from = performance.now();
    program.run(inputs);
    times.push(performance.now() - from);
  }
  program.close();
  const row = [opened, times[0], Math.min(...times.slice(1))].map((ms) => ms.toFixed(2));
  console.log([path.split("/").at(-1), ...row].join(" "));
}
