// A user of the package's types: tests/python/test_web_package.py compiles it, and runs none of it.
import { DType, Program, Result, Tenon, TenonError } from "tenon";
import { WorkerTenon } from "tenon/worker";

export async function inThePage(bytes: ArrayBuffer): Promise<number[]> {
  const tenon: Tenon = await Tenon.load(new URL("tenon.wasm", "https://example.org"));
  const program: Program = tenon.open(bytes, { native: false });
  const results: Result[] = program.run({ x: { data: new Float32Array(4), shape: [2, 2] } }, { seed: 1n });
  program.run([[1, 2, 3], 4, true], { telemetry: true });
  const slowest: number = Math.max(...program.events.map(({ start, end }) => end - start));
  const dtype: DType = program.states.get("weight").dtype;
  program.states.set("weight", { data: [1, 2] });
  program.entry("predict").close();
  const whole: Program = await Program.load("model.wasm");
  const loops: string[] = whole.describe().tasks.map(({ loops }) => whole.describe().loops[loops]);
  return [slowest, dtype.length, loops.length, program.memory.peak, ...(results[0].data as Float32Array)];
}

export async function inAWorker(url: string): Promise<void> {
  const stop = new AbortController();
  const tenon = await WorkerTenon.load(undefined, { threads: 2 });
  try {
    const onProgress = ({ loaded, total }: { loaded: number; total?: number }) => console.log(loaded, total);
    const program = await tenon.openFrom(url, { onProgress, signal: stop.signal });
    const [{ name, shape }] = await program.run([new BigInt64Array(2)], { signal: stop.signal });
    console.log(name, shape, await program.memory(), await program.states.list());
  } catch (error) {
    if (error instanceof TenonError) console.error(error.status === "bad file", error.message);
  }
  tenon.terminate();
}
