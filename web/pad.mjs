// A square to draw a digit in, by pointer or keys, and the digit as 8x8 numbers like those of the data.
import { element } from "./explorer.mjs";

const CELLS = 8;
const PIXELS = 240;

export class Pad {
  #context;
  #cells = null; // what is shown, if it is numbers; null: strokes
  #cursor = 0; // the cell that keys change

  /** `onChange(pixels)`: a Float32Array of 64 numbers from 0 to 1. */
  constructor(onChange) {
    this.onChange = onChange;
    this.canvas = element("canvas", {
      class: "picture pad",
      ...{ width: PIXELS, height: PIXELS, tabindex: 0, role: "application" },
      "aria-label": "Draw a digit. With keys: arrows move in an 8 by 8 grid, space fills or clears a cell.",
    });
    this.hint = element("p", { class: "soft" }, "Draw a digit here. With keys: arrows and space.");
    this.#context = this.canvas.getContext("2d", { willReadFrequently: true });
    this.#listen();
    this.clear();
  }

  clear() {
    this.show(new Float32Array(CELLS * CELLS));
  }

  /** Shows 64 numbers from 0 to 1. */
  show(pixels) {
    this.#cells = Float32Array.from(pixels);
    const size = PIXELS / CELLS;
    this.#cells.forEach((value, i) => {
      this.#context.fillStyle = `rgb(${[0, 0, 0].fill(Math.round(value * 255))})`;
      this.#context.fillRect((i % CELLS) * size, Math.floor(i / CELLS) * size, size, size);
    });
  }

  get pixels() {
    return this.#cells ?? this.#cutOut();
  }

  // Strokes, cut out and scaled to the whole grid, as the digits of the data are.
  #cutOut() {
    const { data } = this.#context.getImageData(0, 0, PIXELS, PIXELS);
    const light = (x, y) => (x >= 0 && x < PIXELS && y >= 0 && y < PIXELS ? data[4 * (y * PIXELS + x)] / 255 : 0);
    const { left, top, width, height } = bounds(light);
    return Float32Array.from({ length: CELLS * CELLS }, (_, i) => {
      const from = [left + ((i % CELLS) * width) / CELLS, top + (Math.floor(i / CELLS) * height) / CELLS];
      let [sum, count] = [0, 0];
      for (let y = Math.floor(from[1]); y < from[1] + height / CELLS; ++y)
        for (let x = Math.floor(from[0]); x < from[0] + width / CELLS; ++x, ++count) sum += light(x, y);
      return sum / count;
    });
  }

  #listen() {
    let last = null;
    const place = ({ offsetX, offsetY }) => {
      const scale = PIXELS / this.canvas.clientWidth;
      return [offsetX * scale, offsetY * scale];
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      last = place(event);
      this.#stroke(last, last);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (last === null) return;
      const next = place(event);
      this.#stroke(last, next);
      last = next;
    });
    for (const name of ["pointerup", "pointercancel"]) this.canvas.addEventListener(name, () => (last = null));
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  #stroke(from, to) {
    if (this.#cells !== null) this.clear();
    this.#cells = null;
    Object.assign(this.#context, { strokeStyle: "#fff", lineWidth: 24, lineCap: "round" });
    this.#context.beginPath();
    this.#context.moveTo(...from);
    this.#context.lineTo(...to);
    this.#context.stroke();
    this.onChange(this.pixels);
  }

  #key(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -CELLS, ArrowDown: CELLS, " ": 0 };
    if (moves[event.key] === undefined) return;
    event.preventDefault();
    const pixels = this.pixels;
    this.#cursor = (this.#cursor + moves[event.key] + CELLS * CELLS) % (CELLS * CELLS);
    if (event.key === " ") pixels[this.#cursor] = pixels[this.#cursor] > 0.5 ? 0 : 1;
    this.show(pixels);
    const [size, column, row] = [PIXELS / CELLS, this.#cursor % CELLS, Math.floor(this.#cursor / CELLS)];
    Object.assign(this.#context, { strokeStyle: "#4aa3ff", lineWidth: 2 });
    this.#context.strokeRect(column * size + 1, row * size + 1, size - 2, size - 2);
    if (event.key === " ") this.onChange(pixels);
  }
}

// Of what is drawn: as high as it is, and wide enough for the proportions of the grid.
function bounds(light) {
  let [left, right, top, bottom] = [PIXELS, 0, PIXELS, 0];
  for (let y = 0; y < PIXELS; y += 2) {
    for (let x = 0; x < PIXELS; x += 2) {
      if (light(x, y) < 0.1) continue;
      [left, right] = [Math.min(left, x), Math.max(right, x)];
      [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
    }
  }
  const height = Math.max(bottom - top, 40);
  const width = Math.max(right - left, 0.75 * height);
  return { left: (left + right - width) / 2, top: (top + bottom - height) / 2, width, height };
}
