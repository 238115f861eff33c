// Runs a list of steps on the runtime for JavaScript, for tests: reads them as JSON, and writes a list of results.
// A typed array is {dtype, shape, base64}. What throws gives {error: {name, status, message}}, and the rest goes on.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , module] = process.argv;
const { Tenon } = await import(pathToFileURL(module));

const TYPES = {
  f64: Float64Array,
  f32: Float32Array,
  f16: Uint16Array,
  bf16: Uint16Array,
  i64: BigInt64Array,
  i32: Int32Array,
  i16: Int16Array,
  i8: Int8Array,
  u8: Uint8Array,
  bool: Uint8Array,
};

const decoded = (value) => {
  if (value === null) return undefined;
  if (value.base64 === undefined) return value;
  const data = new TYPES[value.dtype](Uint8Array.from(Buffer.from(value.base64, "base64")).buffer);
  return value.shape === undefined ? data : { data, shape: value.shape };
};
const encoded = ({ data, ...rest }) => ({ ...rest, base64: Buffer.from(data.buffer).toString("base64") });
const each = (inputs) =>
  Array.isArray(inputs)
    ? inputs.map(decoded)
    : Object.fromEntries(Object.entries(inputs).map(([name, value]) => [name, decoded(value)]));

// How many modules with code of kernels there are: they are made in its place.
let loaded = 0;
WebAssembly.Instance = new Proxy(WebAssembly.Instance, {
  construct(Instance, [module, imports]) {
    ++loaded;
    return new Instance(module, imports);
  },
});
const setPlace = WebAssembly.Table.prototype.set;
WebAssembly.Table.prototype.set = function (place, value) {
  if (value === null) --loaded;
  return setPlace.call(this, place, value);
};

const tenon = await Tenon.load(undefined, { threads: Number(process.env.THREADS ?? 1) });
let first, program;
const steps = {
  open({ path, native }) {
    first?.close();
    first = undefined; // a file that is refused leaves none
    first = program = tenon.open(readFileSync(path), { native });
  },
  loadedCode: () => loaded,
  entry({ name }) {
    program = first.entry(name);
  },
  describe: () => ({
    name: program.name,
    entries: program.entries,
    inputs: program.inputs,
    outputs: program.outputs,
    symbols: program.symbols,
    states: program.states.list,
  }),
  run: ({ inputs, seed }) => program.run(each(inputs), { seed }).map(encoded),
  runAndGiveInputs({ inputs }) {
    const given = each(inputs);
    program.run(given);
    return given.map((data) => encoded({ data }));
  },
  // Runs many times, and says how many bytes the memory grew after the tenth.
  repeat({ inputs, count }) {
    let before;
    for (let i = 0; i < count; ++i) {
      program.run(each(inputs));
      if (i === 9) before = tenon.memoryBytes;
    }
    return tenon.memoryBytes - before;
  },
  reopen({ path, count }) {
    const bytes = readFileSync(path);
    let before;
    for (let i = 0; i < count; ++i) {
      tenon.open(bytes).close();
      if (i === 9) before = tenon.memoryBytes;
    }
    return tenon.memoryBytes - before;
  },
  getState: ({ name }) => encoded(program.states.get(name)),
  setState: ({ name, value }) => program.states.set(name, decoded(value)),
  reset: () => program.states.reset(),
  close: () => first.close(),
  version: () => tenon.version,
};

const results = [];
for (const { step, ...rest } of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    results.push((await steps[step](rest)) ?? null);
  } catch (error) {
    results.push({ error: { name: error.name, status: error.status ?? null, message: error.message } });
  }
}
process.stdout.write(JSON.stringify(results));
