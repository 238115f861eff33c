// The page that trains: a CNN learns digits, in this browser.
import { element, timeText } from "./explorer.mjs";
import { Chart } from "./fields.mjs";
import { Pad } from "./pad.mjs";
import { scoreBars } from "./results.mjs";
import { fileOf, tenon } from "./session.mjs";

const PIXELS = 64;
const TESTS = 360; // digits at the end of digits.bin, to test with
const BATCH = 64;
const RATE = "optimizer.lr.0"; // the state that is the learning rate

// {count, batch(numbers): [x, target], pixels(number)} of rows of 64 pixels from 0 to 16 and a label.
async function loadDigits() {
  const response = await fetch("models/digits.bin");
  if (!response.ok) throw new Error("This page was built without its models: say make web-models.");
  const bytes = new Uint8Array(await response.arrayBuffer());
  const row = PIXELS + 1;
  const pixels = (number) =>
    Float32Array.from(bytes.subarray(number * row, number * row + PIXELS), (value) => value / 16);
  const batch = (numbers) => {
    const x = new Float32Array(numbers.length * PIXELS);
    numbers.forEach((number, i) => x.set(pixels(number), i * PIXELS));
    const target = BigInt64Array.from(numbers, (number) => BigInt(bytes[number * row + PIXELS]));
    return [{ data: x, shape: [numbers.length, 1, 8, 8] }, target];
  };
  return { count: bytes.length / row - TESTS, all: bytes.length / row, batch, pixels };
}

function shuffled(count) {
  const numbers = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; --i) {
    const other = Math.floor(Math.random() * (i + 1));
    [numbers[i], numbers[other]] = [numbers[other], numbers[i]];
  }
  return numbers;
}

class Training {
  steps = 0;
  epochs = 0;
  isRunning = false;
  #left = []; // digits of this epoch that were not seen yet

  constructor(digits, step, evaluate, predict) {
    Object.assign(this, { digits, step, evaluate, predict });
    this.tests = digits.batch(Array.from({ length: TESTS }, (_, i) => digits.count + i));
  }

  static async open() {
    const runtime = await tenon();
    const [digits, step] = await Promise.all([loadDigits(), runtime.openFrom(fileOf("training"))]);
    return new Training(digits, step, await step.entry("evaluate"), await step.entry("predict"));
  }

  /** One step: its loss. */
  async advance() {
    if (this.#left.length < BATCH) {
      this.#left = shuffled(this.digits.count);
      this.epochs += this.steps > 0;
    }
    const [{ data }] = await this.step.run(this.digits.batch(this.#left.splice(0, BATCH)));
    ++this.steps;
    return data[0];
  }

  /** {loss, right} of the digits for testing. */
  async test() {
    const [x, target] = this.tests;
    const [scores, loss] = await this.evaluate.run([x, target]);
    const best = (i) => {
      const own = scores.data.subarray(10 * i, 10 * i + 10);
      return own.indexOf(Math.max(...own));
    };
    const right = Array.from(target, (wanted, i) => Number(best(i) === Number(wanted)));
    return { loss: loss.data[0], right: right.reduce((sum, each) => sum + each, 0) / TESTS };
  }

  async read(pixels) {
    const [{ data }] = await this.predict.run([{ data: pixels, shape: [1, 1, 8, 8] }]);
    const weights = Array.from(data, (score) => Math.exp(score - Math.max(...data)));
    const sum = weights.reduce((all, weight) => all + weight, 0);
    return weights.map((weight) => weight / sum);
  }

  async reset(rate) {
    await this.step.states.reset();
    await this.setRate(rate);
    this.steps = this.epochs = 0;
    this.#left = [];
  }

  setRate(rate) {
    return this.step.states.set(RATE, Float64Array.of(rate));
  }
}

class Page {
  constructor(root, training) {
    this.training = training;
    this.chart = new Chart("Loss", ["training", "digits for testing"], (loss) => loss.toFixed(2));
    this.error = element("p", { class: "error", role: "alert" });
    this.status = element("p", { id: "train-status" });
    this.accuracy = element("p", { id: "accuracy", role: "status" });
    this.start =
      element("button", { type: "button", class: "main", id: "train", onclick: () => this.#toggle() }, "Train");
    const reset = element("button", { type: "button", onclick: () => this.#reset() }, "Start again");
    this.rate = element("input", { type: "number", min: 0.0001, max: 0.1, step: 0.0005, value: 0.002, id: "rate" });
    this.rate.addEventListener(
      "change", () => training.setRate(Number(this.rate.value)).catch((error) => this.#fail(error))
    );
    root.append(
      element("h1", {}, "Train in the browser"),
      element(
        "p",
        { class: "soft" },
        `A convolutional network learns to read handwritten digits of 8 by 8 pixels, ${
          training.digits.count} of them, in batches of ${BATCH}. Forward, backward and AdamW are one compiled program.`
      ),
      element(
        "div",
        { class: "tools" },
        this.start,
        reset,
        element(
          "label",
          { for: "rate"
          },
          "Learning rate "
        ),
        this.rate
      ),
      this.error,
      this.status,
      this.accuracy,
      this.chart.root,
      this.#drawing(),
    );
    this.#show();
  }

  #drawing() {
    this.scores = element("div", { id: "read", role: "status" });
    this.pad = new Pad(() => this.#read());
    const show = () => {
      this.pad.show(this.training.digits.pixels(this.training.digits.count + Math.floor(Math.random() * TESTS)));
      this.#read();
    };
    const button = (text, onclick, id) => element("button", { type: "button", onclick, id }, text);
    const clear = button("Clear", () => (this.pad.clear(), this.scores.replaceChildren()));
    const tools = element("div", { class: "tools" }, button("A digit for testing", show, "sample"), clear);
    return element(
      "section",
      { "aria-label": "Draw a digit" },
      element("h2", {}, "Draw a digit"),
      element("div", { class: "columns" }, element("div", {}, this.pad.canvas, this.pad.hint, tools), this.scores)
    );
  }

  // Draws come faster than results: one asks at a time, and the last counts.
  async #read() {
    this.isAsked = true;
    if (this.isReading) return;
    this.isReading = true;
    while (this.isAsked) {
      this.isAsked = false;
      const scores = await this.training.read(this.pad.pixels).catch((error) => this.#fail(error));
      if (scores) this.scores.replaceChildren(scoreBars(scores));
    }
    this.isReading = false;
  }

  async #toggle() {
    this.training.isRunning = !this.training.isRunning;
    this.#show();
    if (!this.training.isRunning) return;
    await this.#train().catch((error) => this.#fail(error));
    this.training.isRunning = false;
    this.#show();
  }

  async #train() {
    const { training } = this;
    const TEST_EVERY = 10;
    let [began, from] = [performance.now(), training.steps];
    while (training.isRunning && this.status.isConnected) {
      const loss = await training.advance();
      const isTested = training.steps % TEST_EVERY === 0;
      const test = isTested ? await training.test() : null;
      this.chart.add([loss, test?.loss ?? NaN]);
      if (!isTested) continue;
      const each = (performance.now() - began) / (training.steps - from);
      [began, from] = [performance.now(), training.steps];
      this.#show(each);
      this.accuracy.textContent =
        `Of ${TESTS} digits that it never saw, it reads ${(100 * test.right).toFixed(1)} % right.`;
      if (this.scores.firstChild) this.#read();
      if (document.hidden)
        await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
    }
  }

  #show(each) {
    const { steps, epochs, isRunning } = this.training;
    this.start.textContent = isRunning ? "Pause" : "Train";
    this.status.textContent =
      `${steps} steps, ${epochs} times through the data${each ? `; ${timeText(each)} a step` : ""}`;
    this.status.dataset.steps = steps;
  }

  async #reset() {
    this.training.isRunning = false;
    await this.training.reset(Number(this.rate.value)).catch((error) => this.#fail(error));
    this.chart.clear();
    this.accuracy.textContent = "";
    this.#show();
  }

  #fail(error) {
    this.error.textContent = error.message;
  }
}

export async function start(root) {
  new Page(root, await Training.open());
}
