// The workers that run models, and the models that the page comes with.
import { WorkerTenon } from "./worker.mjs";

// Calls once, and again after a failure.
function once(make) {
  let made = null;
  return () => (made ??= make().catch((error) => ((made = null), Promise.reject(error))));
}

/** A Tenon in a worker: models run there, so that the page never stalls. Threads help where the page is isolated. */
export const tenon = once(() => WorkerTenon.load(undefined, { threads: Math.min(navigator.hardwareConcurrency, 8) }));
/** Another, which describes programs. */
export const inspector = once(() => WorkerTenon.load("tenon-inspect.wasm"));

/** [{name, title, about, kind, note, bytes}]; empty where none was made. */
export const models = once(async () => {
  const response = await fetch("models/models.json");
  return response.ok ? response.json() : [];
});

export const fileOf = (name) => new URL(`models/${name}.tenon`, document.baseURI);

/** The numbers of `count` elements of a dtype, as run() takes them. */
export function arrayOf(dtype, count, valueOf) {
  const Types = { f64: Float64Array, f32: Float32Array, f16: Uint16Array, bf16: Uint16Array, i64: BigInt64Array };
  const Type = { ...Types, i32: Int32Array, i16: Int16Array, i8: Int8Array, u8: Uint8Array, bool: Uint8Array }[dtype];
  const convert = Type === BigInt64Array ? (value) => BigInt(Math.trunc(value)) : (value) => value;
  return Type.from({ length: count }, (_, i) => convert(valueOf(i)));
}

const OPERATORS = {
  "*": (a, b) => a * b,
  "//": (a, b) => Math.floor(a / b),
  "%": (a, b) => a - b * Math.floor(a / b),
  min: (a, b) => Math.min(a, b),
  max: (a, b) => Math.max(a, b),
};

/** The value of a size as the runtime writes it, "(N*2) + 1" or "min(N, 4)", for sizes {N: 4}. */
export function valueOf(text, sizes) {
  const words = text.match(/[^\s()+*/%,]+|\/\/|\S/g);
  const value = () => {
    const word = words.shift();
    if (word === "(") {
      const inside = all();
      words.shift();
      return inside;
    }
    if (word === "min" || word === "max") {
      words.shift();
      const pair = [all(), (words.shift(), all())];
      words.shift();
      return OPERATORS[word](...pair);
    }
    if (!/^-?\d+$/.test(word) && sizes[word] === undefined)
      throw new Error(`the size '${word}' of ${text} is not known`);
    return sizes[word] ?? Number(word);
  };
  const sum = () => {
    let result = value();
    while (words[0] === "+") result += (words.shift(), value());
    return result;
  };
  // Sums bind closest: the quotient of a + 7 is written (a + 7//8).
  const all = () => {
    let result = sum();
    while (["*", "//", "%"].includes(words[0])) result = OPERATORS[words.shift()](result, sum());
    return result;
  };
  return all();
}

/** The shape of an input for sizes {N: 4}. */
export function shapeOf(input, sizes) {
  return input.shape.map((size) => (typeof size === "number" ? size : valueOf(size, sizes)));
}

/** Random inputs of a program. Integers are 0 and 1: they may be places in a table. */
export function randomInputs(program, sizes) {
  return program.inputs.map((input) => {
    const shape = shapeOf(input, sizes);
    const count = shape.reduce((product, size) => product * size, 1);
    const isReal = ["f64", "f32"].includes(input.dtype);
    return { shape, data: arrayOf(input.dtype, count, () => (isReal ? Math.random() * 2 - 1 : Math.random() * 2)) };
  });
}
