// What a model of somebody's is fed with, by the types of its inputs: numbers, text, pictures, webcam, microphone.
import { element } from "./explorer.mjs";
import { arrayOf, shapeOf } from "./session.mjs";

const product = (shape) => shape.reduce((size, each) => size * each, 1);

/**
 * {channels, height, width, isLast} of a shape that can be a picture: [1, 3, 224, 224], [224, 224, 3], [28, 28]; or
 * null.
 */
export function pictureShape(shape) {
  const sizes = shape.length === 4 && shape[0] === 1 ? shape.slice(1) : shape;
  const has = (at) => sizes[at] === 1 || sizes[at] === 3;
  if (sizes.length === 2 && Math.min(...sizes) >= 8)
    return { channels: 1, height: sizes[0], width: sizes[1], isLast: false };
  if (sizes.length !== 3) return null;
  if (has(0) && Math.min(sizes[1], sizes[2]) >= 8)
    return { channels: sizes[0], height: sizes[1], width: sizes[2], isLast: false };
  if (has(2) && Math.min(sizes[0], sizes[1]) >= 8)
    return { channels: sizes[2], height: sizes[0], width: sizes[1], isLast: true };
  return null;
}

// How a channel's value from 0 to 1 becomes the model's.
export const SCALES = {
  "0 to 1": (value) => value,
  "-1 to 1": (value) => 2 * value - 1,
  "ImageNet's mean and deviation": (value, channel) =>
    (value - [0.485, 0.456, 0.406][channel]) / [0.229, 0.224, 0.225][channel],
  "0 to 255": (value) => 255 * value,
};

/** The elements of a picture (ImageBitmap, video, canvas), cut to the proportions of the model. */
export function pictureElements(picture, shape, dtype, scale = SCALES["0 to 1"]) {
  const { channels, height, width, isLast } = pictureShape(shape);
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const [wide, high] = [picture.videoWidth ?? picture.width, picture.videoHeight ?? picture.height];
  const part = Math.min(wide / width, high / height);
  const [cutWide, cutHigh] = [part * width, part * height];
  context.drawImage(picture, (wide - cutWide) / 2, (high - cutHigh) / 2, cutWide, cutHigh, 0, 0, width, height);
  const { data } = context.getImageData(0, 0, width, height);
  const grey = (pixel) => (0.299 * data[pixel] + 0.587 * data[pixel + 1] + 0.114 * data[pixel + 2]) / 255;
  return arrayOf(dtype, channels * height * width, (i) => {
    const channel = isLast ? i % channels : Math.floor(i / (height * width));
    const pixel = 4 * (isLast ? Math.floor(i / channels) : i % (height * width));
    return scale(channels === 1 ? grey(pixel) : data[pixel + channel] / 255, channel);
  });
}

// ---- live sources ---------------------------------------------------------------------------------------------------

/** A video element with the webcam, and stop(). */
export async function openWebcam() {
  const stream = await navigator.mediaDevices.getUserMedia({ video: { width: 640, height: 480 } });
  const video = element("video", { muted: true, playsinline: true });
  video.srcObject = stream;
  await video.play();
  return { video, stop: () => stream.getTracks().forEach((track) => track.stop()) };
}

/** latest(count): the newest samples of the microphone, and stop(). */
export async function openMicrophone() {
  const MOST = 32768; // that an analyser keeps
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const audio = new AudioContext();
  const analyser = new AnalyserNode(audio, { fftSize: MOST });
  audio.createMediaStreamSource(stream).connect(analyser);
  const samples = new Float32Array(MOST);
  return {
    latest(count) {
      analyser.getFloatTimeDomainData(samples);
      return (i) => samples[MOST - Math.min(count, MOST) + (i % MOST)];
    },
    stop: () => (stream.getTracks().forEach((track) => track.stop()), audio.close()),
  };
}

// ---- one input ------------------------------------------------------------------------------------------------------

/** A choice of where the elements of an input come from. read(sizes) gives {shape, data}. */
export class Source {
  #picture = null; // an ImageBitmap
  #live = null; // a webcam or a microphone

  constructor(input) {
    this.input = input;
    const isReal = ["f64", "f32"].includes(input.dtype);
    const isPicture = pictureShape(input.shape.map((size) => (typeof size === "number" ? size : 8))) !== null;
    const kinds = [
      "random",
      "zeros",
      "ones",
      !isReal && "text",
      isPicture && "picture",
      isPicture && "webcam",
      isReal && "microphone"
    ];
    this.kind = element("select", {}, ...kinds.filter(Boolean).map((kind) => element("option", {}, kind)));
    this.kind.addEventListener("change", () => this.#show());
    this.scale =
      element("select", { "aria-label": "Values" }, ...Object.keys(SCALES).map((name) => element("option", {}, name)));
    this.text = element("input", { type: "text", value: "Hello", "aria-label": `Text for ${input.name}` });
    this.file = element("input", { type: "file", accept: "image/*", "aria-label": `Picture for ${input.name}` });
    const type = `${input.dtype}[${input.shape.join(", ")}]`;
    const label = element("label", {}, `${input.name} `, element("code", {}, type), " ", this.kind);
    this.root = element("div", { class: "tools" }, label, this.text, this.file, this.scale);
    this.#show();
  }

  get isLive() {
    return ["webcam", "microphone"].includes(this.kind.value);
  }

  stop() {
    this.#live?.stop();
    this.#live = null;
  }

  async read(sizes) {
    const shape = shapeOf(this.input, sizes);
    return { shape, data: await this.#elements(shape, product(shape)) };
  }

  async #elements(shape, count) {
    const { dtype } = this.input;
    switch (this.kind.value) {
      case "random":
        return arrayOf(dtype, count, () => (["f64", "f32"].includes(dtype) ? Math.random() : 2 * Math.random()));
      case "text": {
        const bytes = new TextEncoder().encode(this.text.value);
        return arrayOf(dtype, count, (i) => bytes[i] ?? 0);
      }
      case "picture":
        this.#picture ??= await createImageBitmap(this.#chosen());
        return pictureElements(this.#picture, shape, dtype, SCALES[this.scale.value]);
      case "webcam":
        this.#live ??= await openWebcam();
        return pictureElements(this.#live.video, shape, dtype, SCALES[this.scale.value]);
      case "microphone":
        this.#live ??= await openMicrophone();
        return arrayOf(dtype, count, this.#live.latest(count));
      default:
        return arrayOf(dtype, count, () => (this.kind.value === "ones" ? 1 : 0));
    }
  }

  #chosen() {
    if (!this.file.files[0]) throw new Error(`choose a picture for '${this.input.name}'`);
    return this.file.files[0];
  }

  #show() {
    this.stop();
    this.#picture = null;
    this.file.onchange = () => (this.#picture = null);
    this.text.hidden = this.kind.value !== "text";
    this.file.hidden = this.kind.value !== "picture";
    this.scale.hidden = !["picture", "webcam"].includes(this.kind.value);
  }
}
