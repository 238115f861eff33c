// The page that runs models: those that it comes with, each with controls of its own, and files.
import { bytesText, element, timeText } from "./explorer.mjs";
import { Chart, modelChoice, sizeFields } from "./fields.mjs";
import { Pad } from "./pad.mjs";
import { drawPicture, resultView, scoreBars } from "./results.mjs";
import { fileOf, models, tenon } from "./session.mjs";
import { openWebcam, pictureElements, Source } from "./sources.mjs";

const button = (text, onclick, properties = {}) => element("button", { type: "button", onclick, ...properties }, text);

// ---- what a run took ------------------------------------------------------------------------------------------------

class Telemetry {
  constructor() {
    this.status = element("p", { role: "status", id: "run-status" });
    this.tasks = element("tbody");
    const head = ["Task", "Kind", "Time"].map((name) => element("th", { scope: "col" }, name));
    const table = element("table", { id: "run-tasks" }, element("thead", {}, element("tr", {}, ...head)), this.tasks);
    this.chart = new Chart("Memory over time", ["this model", "WebAssembly"], (bytes) => bytesText(Math.round(bytes)));
    this.root = element(
      "section",
      { "aria-label": "What a run takes" },
      element("h2", {}, "What a run takes"),
      this.status,
      element("div", { class: "columns" }, element("div", { class: "scroll" }, table), this.chart.root),
    );
  }

  show(events, memory, whole) {
    const total = events.reduce((sum, { start, end }) => sum + end - start, 0);
    this.status.textContent =
      `${timeText(total)} in ${events.length} tasks; at most ${bytesText(memory.peak)} of temporaries and results. ` +
      `The clock of this page counts in steps of ${crossOriginIsolated ? "5 µs" : "0.1 ms"}.`;
    const slowest = [...events].sort((a, b) => b.end - b.start - (a.end - a.start)).slice(0, 8);
    const row = ({ task, kind, start, end }) => {
      const bar =
        element("span", { class: "bar", style: `width: ${((60 * (end - start)) / total || 0).toFixed(1)}px` });
      return element(
        "tr",
        {},
        element("td", {}, task),
        element("td", {}, kind),
        element("td", { class: "number" }, bar, timeText(end - start))
      );
    };
    this.tasks.replaceChildren(...slowest.map(row));
    this.chart.add([memory.current, whole]);
  }
}

// A program with what is noted of its runs.
class Session {
  constructor(runtime, program, telemetry) {
    Object.assign(this, { runtime, program, telemetry });
  }

  async run(inputs) {
    const results = await this.program.run(inputs, { telemetry: true });
    const notes = [this.program.events(), this.program.memory(), this.runtime.memoryBytes()];
    this.telemetry.show(...(await Promise.all(notes)));
    return results;
  }

  /** Milliseconds of the median run, and by how many bytes WebAssembly's memory grew. */
  async repeat(count, inputs, onProgress) {
    await this.program.run(inputs);
    const before = await this.runtime.memoryBytes();
    const times = [];
    for (let i = 0; i < count; ++i) {
      const start = performance.now();
      await this.program.run(inputs);
      times.push(performance.now() - start);
      if (i % 50 === 0) onProgress(i);
    }
    return { median: times.sort((a, b) => a - b)[count >> 1], growth: (await this.runtime.memoryBytes()) - before };
  }
}

// ---- controls of each kind of model ---------------------------------------------------------------------------------

// A part of the page: {root, start(), stop()}. `report` shows errors of what it starts.
function digitControls(session, report) {
  const scores = element("div", { id: "digit-scores", role: "status" });
  const show = async (pixels) => {
    const [{ data }] = await session.run([pixels]);
    scores.replaceChildren(scoreBars([...data]));
    const best = data.indexOf(Math.max(...data));
    scores.prepend(element("p", {}, "I read ", element("strong", { id: "digit" }, `${best}`)));
  };
  let next = null; // what is drawn while a run is under way
  let isRunning = false;
  const change = async (pixels) => {
    next = pixels;
    if (isRunning) return;
    isRunning = true;
    for (; next !== null; ) {
      const given = next;
      next = null;
      await show(given).catch(report);
    }
    isRunning = false;
  };
  const pad = new Pad(change);
  const clear = () => (pad.clear(), change(pad.pixels));
  const root = element(
    "div",
    { class: "columns" },
    element("div", {}, pad.canvas, pad.hint, element("div", { class: "tools" }, button("Clear", clear))),
    scores
  );
  const seven = new Float32Array(64);
  for (const cell of [9, 10, 11, 12, 13, 14, 21, 22, 28, 29, 36, 35, 43, 51, 50]) seven[cell] = 1;
  return { root, start: () => (pad.show(seven), change(seven)), stop: () => {} };
}

const CONTEXT = 64; // of make_models.py

// A byte by its score: the higher the temperature, the more surprising.
function drawByte(scores, temperature) {
  const most = Math.max(...scores);
  const weights = Array.from(scores, (score) => Math.exp((score - most) / temperature));
  let left = Math.random() * weights.reduce((sum, weight) => sum + weight, 0);
  return weights.findIndex((weight) => (left -= weight) <= 0);
}

function textControls(session, report) {
  const text = element("textarea", { rows: 8, class: "story", id: "story", "aria-label": "The text" });
  text.value = "A program is ";
  const temperature = element("input", { type: "range", min: 0.2, max: 1.4, step: 0.1, value: 0.7 });
  const status = element("p", { role: "status", class: "soft" });
  let isWriting = false;
  const write = async (count) => {
    isWriting = true;
    const start = performance.now();
    let done = 0;
    for (; isWriting && done < count && text.isConnected; ++done) {
      const bytes = new TextEncoder().encode(text.value.padStart(CONTEXT, "\n")).slice(-CONTEXT);
      const tokens = BigInt64Array.from(bytes, (byte) => BigInt(byte < 128 ? byte : 32));
      const [{ data }] = await session.run([tokens]);
      text.value += String.fromCharCode(drawByte(data, Number(temperature.value)));
      text.scrollTop = text.scrollHeight;
    }
    isWriting = false;
    status.textContent = `${Math.round((1000 * done) / (performance.now() - start))} bytes a second`;
  };
  const stop = () => (isWriting = false);
  const tools = element(
    "div",
    { class: "tools" },
    button("Continue", () => isWriting || write(200).catch(report), { class: "main" }),
    button("Stop", stop),
    element("label", {}, "Surprise ", temperature)
  );
  return { root: element("div", {}, text, tools, status), start: () => write(1), stop };
}

// A picture that is there without a file and without a camera.
function testPicture() {
  const canvas = element("canvas", { width: 256, height: 256 });
  const context = canvas.getContext("2d");
  const shade = context.createLinearGradient(0, 0, 256, 256);
  shade.addColorStop(0, "#f2d16b");
  shade.addColorStop(1, "#2d5f8a");
  context.fillStyle = shade;
  context.fillRect(0, 0, 256, 256);
  const disc = (x, y, radius, colour) => {
    context.fillStyle = colour;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
  };
  disc(128, 120, 84, "#f7f0e2");
  disc(98, 100, 12, "#203040");
  disc(158, 100, 12, "#203040");
  context.lineWidth = 9;
  context.beginPath();
  context.arc(128, 128, 46, 0.3, Math.PI - 0.3);
  context.stroke();
  return canvas;
}

function pictureControls(session, report) {
  const label = "The picture that the model draws";
  const result = element("canvas", { class: "picture", id: "picture", role: "img", "aria-label": label });
  const status = element("p", { role: "status", class: "soft" });
  let webcam = null;
  const show = async (picture) => {
    const [{ shape, dtype }] = session.program.inputs;
    const [drawn] = await session.run([{ shape, data: pictureElements(picture, shape, dtype) }]);
    drawPicture(result, drawn);
  };
  const stop = () => {
    webcam?.stop();
    webcam = null;
  };
  const film = async () => {
    stop();
    const own = (webcam = await openWebcam());
    let frames = 0;
    const start = performance.now();
    while (webcam === own && result.isConnected) {
      await show(own.video);
      status.textContent = `${((1000 * ++frames) / (performance.now() - start)).toFixed(1)} pictures a second`;
      await new Promise(requestAnimationFrame); // which waits while the page is not shown
    }
  };
  const choose = element("input", { type: "file", accept: "image/*", "aria-label": "A picture" });
  choose.addEventListener(
    "change", () => choose.files[0] && createImageBitmap(choose.files[0]).then(show).catch(report)
  );
  const tools = element(
    "div",
    { class: "tools" },
    button("Webcam", () => film().catch(report), { class: "main" }),
    button("Stop", stop),
    choose
  );
  return { root: element("div", {}, result, tools, status), start: () => show(testPicture()), stop };
}

// For any other file: its inputs, and where their elements come from.
function anyControls(session, report) {
  const sources = session.program.inputs.map((input) => new Source(input));
  const fields = sizeFields(session.program.symbols);
  const results = element("div", { id: "results", role: "status" });
  let isLive = false;
  const read = () => Promise.all(sources.map((source) => source.read(fields.sizes())));
  const run = async () => {
    isLive = sources.some((source) => source.isLive);
    do {
      results.replaceChildren(...(await session.run(await read())).map(resultView));
      await new Promise(requestAnimationFrame);
    } while (isLive && results.isConnected);
  };
  const stop = () => {
    isLive = false;
    sources.forEach((source) => source.stop());
  };
  const status = element("output", { id: "repeated" });
  const repeat = async () => {
    const COUNT = 1000;
    const { median, growth } =
      await session.repeat(COUNT, await read(), (i) => (status.textContent = `${i} of ${COUNT}`));
    status.textContent = `${COUNT} runs, the median ${timeText(median)}; memory grew by ${growth} bytes`;
  };
  const tools = element(
    "div",
    { class: "tools" },
    button("Run", () => run().catch(report), { class: "main", id: "run" }),
    button("Run 1,000 times", () => repeat().catch(report), { id: "repeat" }),
    button("Stop", stop),
    status
  );
  const root = element(
    "div",
    {},
    ...sources.map(({ root }) => root),
    session.program.symbols.length > 0 ? fields.root : null,
    tools,
    results
  );
  return { root, start: () => Promise.resolve(), stop };
}

const CONTROLS = { digit: digitControls, text: textControls, picture: pictureControls };

// ---- the page -------------------------------------------------------------------------------------------------------

class Page {
  #session = null;
  #controls = null;
  #opening = 0; // the number of the model that was asked for last

  constructor(root, listed) {
    this.models = listed.filter(({ kind }) => CONTROLS[kind]);
    this.choice = modelChoice(
      this.models,
      { accept: ".tenon", onModel: (model) => this.openModel(model), onFile: (file) => this.open(file, file.name) }
    );
    this.progress = element("progress", { max: 1, "aria-label": "Loading", hidden: true });
    this.place = element("div", { id: "model" });
    root.append(
      element("h1", {}, "Run a model"),
      element("p", { class: "soft" }, "PyTorch models that Tenon compiled to WebAssembly, in this page: nothing that you give them leaves it."),
      this.choice.root,
      this.progress,
      this.place,
    );
  }

  openModel(model) {
    this.choice.press(model.name);
    return this.open(fileOf(model.name), model.title, model);
  }

  async open(source, title, model) {
    const number = ++this.#opening;
    const isLatest = () => number === this.#opening;
    this.close();
    if (!model) this.choice.press(null);
    this.choice.fail(null);
    try {
      const start = performance.now();
      const runtime = await tenon();
      const onProgress = ({ loaded, total }) => (this.progress.value = total ? loaded / total : 0.5);
      this.progress.hidden = false;
      const program = await runtime.openFrom(source, { onProgress });
      if (!isLatest()) return program.close();
      await this.#show(new Session(runtime, program, new Telemetry()), title, model, performance.now() - start);
    } catch (error) {
      if (isLatest()) this.choice.fail(error);
    } finally {
      if (isLatest()) this.progress.hidden = true;
    }
  }

  close() {
    this.#controls?.stop();
    this.#session?.program.close();
    this.#session = this.#controls = null;
    this.place.replaceChildren();
  }

  async #show(session, title, model, milliseconds) {
    this.#session = session;
    // A run that was under way when its program was closed has nothing to report.
    const report = (error) => session === this.#session && this.choice.fail(error);
    this.#controls = (CONTROLS[model?.kind] ?? anyControls)(session, report);
    const types = (tensors) =>
      tensors.map(({ name, dtype, shape }) => `${name}: ${dtype}[${shape.join(", ")}]`).join(", ");
    const { inputs, outputs } = session.program;
    const note = model?.note ? `${model.note}. ` : "";
    const about = `${note}Takes ${types(inputs)}; gives ${types(outputs)}. Opened in ${timeText(milliseconds)}.`;
    this.place.append(
      element("h2", {}, title),
      element("p", { class: "soft" }, about),
      this.#controls.root,
      session.telemetry.root,
    );
    await this.#controls.start();
    this.place.dataset.result = performance.now(); // since navigation: tests read when the first came
  }
}

export async function start(root) {
  const page = new Page(root, await models());
  if (page.models.length > 0) await page.openModel(page.models[0]);
}
