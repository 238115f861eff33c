// What comes out of a model: a picture, scores, or numbers.
import { element } from "./explorer.mjs";
import { pictureShape } from "./sources.mjs";

/** Draws an f32 tensor of values from 0 to 1, or whatever its range is, into a canvas of its size. */
export function drawPicture(canvas, { shape, data }) {
  const { channels, height, width, isLast } = pictureShape(shape);
  Object.assign(canvas, { width, height });
  const [low, high] =
    data.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, -Infinity]);
  const isPlain = low >= -0.001 && high <= 1.001;
  const value = (at) => 255 * (isPlain ? data[at] : (data[at] - low) / (high - low || 1));
  const image = new ImageData(width, height);
  for (let pixel = 0; pixel < width * height; ++pixel) {
    for (let channel = 0; channel < 3; ++channel) {
      const own = Math.min(channel, channels - 1);
      image.data[4 * pixel + channel] = value(isLast ? pixel * channels + own : own * width * height + pixel);
    }
    image.data[4 * pixel + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** The largest of some scores, as bars; probabilities are parts of 1. `labels` are their names. */
export function scoreBars(scores, labels, most = 10) {
  const best = [...scores.keys()].sort((a, b) => scores[b] - scores[a]).slice(0, most);
  const shown = scores.length <= most ? [...scores.keys()] : best;
  const low = Math.min(0, ...scores);
  const isProbability = low === 0 && Math.abs(scores.reduce((sum, score) => sum + score, 0) - 1) < 1e-3;
  const high = isProbability ? 1 : Math.max(...scores);
  const row = (i) =>
    [element("span", {}, i === best[0] ? element("strong", {}, labels?.[i] ?? `${i}`) : (labels?.[i] ?? `${i}`)),
     element(
       "meter",
       { min: 0, max: 1, value: (scores[i] - low) / (high - low || 1), "aria-label": `score of ${labels?.[i] ?? i}` }
     ),
     element("span", { class: "number" }, scores[i].toFixed(3)),
  ];
  return element("div", { class: "scores" }, ...shown.flatMap(row));
}

/** A result of run() as an element. */
export function resultView({ name, dtype, shape, data }) {
  const title = element("h4", {}, `${name} `, element("code", {}, `${dtype}[${shape.join(", ")}]`));
  const isReal = dtype === "f32" || dtype === "f64";
  if (isReal && pictureShape(shape) !== null) {
    const canvas =
      element("canvas", { class: "picture", role: "img", "aria-label": `The result ${name} as a picture` });
    drawPicture(canvas, { shape, data });
    return element("div", {}, title, canvas);
  }
  if (isReal && data.length > 1 && data.length <= 4096 && shape.at(-1) === data.length)
    return element("div", {}, title, scoreBars(data));
  const first =
    [...data.slice(0, 24)].map((value) => (typeof value === "number" ? Number(value.toPrecision(6)) : value));
  return element("div", {}, title, element("pre", { tabindex: 0 }, first.join("  ") + (data.length > 24 ? "  …" : "")));
}
