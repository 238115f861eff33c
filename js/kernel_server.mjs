// Runs kernels for a program that is no page (src/backends/wasm/node.h): modules and arrays come in by standard input,
// results go out by standard output. Numbers are 64 bits, little-endian.
//
//     1 size bytes                         load: a number, or -1 and a text
//     2 kernel count {size is_output [bytes]} count {size}
//                                          run: a status, four words of an error and, if it is 0, the outputs; or -1 and a text
//     3 kernel                             unload
//
// The first thing that it says is whether the engine has relaxed SIMD.
import { readFileSync, readSync, writeSync } from "node:fs";
import { environmentOf, start } from "./kernels.mjs";
import { RELAXED_MADD } from "./runtime.mjs";

const [INPUT, OUTPUT] = [0, 1];
const [LOAD, RUN, UNLOAD] = [1, 2, 3];

const runtime = await start(readFileSync(new URL("tenon-kernels.wasm", import.meta.url)));
const { memory } = runtime;
const kernels = new Map(); // functions by number
let loaded = 0;

// ---- the pipe -------------------------------------------------------------------------------------------------------

/** Bytes of this length; it ends the process where no more come. */
function read(count) {
  const bytes = new Uint8Array(count);
  for (let at = 0; at < count; ) {
    const got = readSync(INPUT, bytes, at, Math.min(count - at, 1 << 30));
    if (got === 0) process.exit(0);
    at += got;
  }
  return bytes;
}
const readNumber = () => Number(new DataView(read(8).buffer).getBigInt64(0, true));

function write(bytes) {
  for (let at = 0; at < bytes.length; ) at += writeSync(OUTPUT, bytes, at, Math.min(bytes.length - at, 1 << 30));
}
const writeNumbers = (...numbers) => write(new Uint8Array(BigInt64Array.from(numbers, BigInt).buffer));
function writeFailure({ message }) {
  const text = new TextEncoder().encode(message);
  writeNumbers(-1, text.length);
  write(text);
}

// ---- kernels --------------------------------------------------------------------------------------------------------

function load() {
  const bytes = read(readNumber());
  try {
    const module = new WebAssembly.Module(bytes);
    const { kernel } = new WebAssembly.Instance(module, { env: environmentOf(runtime.exports) }).exports;
    kernels.set(loaded, kernel);
    writeNumbers(loaded++);
  } catch (error) {
    writeFailure(error);
  }
}

function run() {
  const kernel = kernels.get(readNumber());
  const arrays = Array.from({ length: readNumber() }, () => {
    const [size, isOutput] = [readNumber(), readNumber() !== 0];
    return { size, isOutput, bytes: isOutput ? null : read(size) };
  });
  const sizes = Array.from({ length: readNumber() }, readNumber);
  const held = [];
  const allocate = (size) => {
    held.push(memory.allocate(size));
    return held.at(-1);
  };
  try {
    const places = arrays.map(({ size }) => allocate(size));
    const [table, sizeTable, error] = [allocate(4 * places.length), allocate(8 * sizes.length), allocate(32)];
    arrays.forEach(({ size, bytes }, i) => {
      bytes === null ? memory.bytes.fill(0, places[i], places[i] + size) : memory.bytes.set(bytes, places[i]);
      memory.view.setUint32(table + 4 * i, places[i], true);
    });
    sizes.forEach((size, i) => memory.view.setBigInt64(sizeTable + 8 * i, BigInt(size), true));
    memory.bytes.fill(0, error, error + 32);
    const status = kernel(table, sizeTable, error, 0);
    writeNumbers(status);
    write(memory.bytes.slice(error, error + 32));
    if (status !== 0n) return;
    arrays.forEach(({ size, isOutput }, i) => isOutput && write(memory.bytes.slice(places[i], places[i] + size)));
  } catch (error) {
    writeFailure(error);
  } finally {
    held.forEach((place) => memory.free(place));
  }
}

writeNumbers(WebAssembly.validate(RELAXED_MADD) ? 1 : 0);
const requests = { [LOAD]: load, [RUN]: run, [UNLOAD]: () => kernels.delete(readNumber()) };
for (;;) requests[readNumber()]();
