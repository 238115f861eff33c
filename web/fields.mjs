// Parts that several pages have: a choice of models, and a line chart.
import { bytesText, element } from "./explorer.mjs";

/**
 * Models of the page, and a place to drop or choose a file. `onModel(model)` and `onFile(file)` are called. The result
 * is {root, press(name), fail(error)}.
 */
export function modelChoice(models, { accept, onModel, onFile }) {
  const error = element("p", { class: "error", role: "alert" });
  const buttons = models.map((model) => {
    const size = `${model.about}. ${bytesText(model.bytes)}`;
    const click = () => onModel(model);
    return element(
      "button",
      { type: "button", "data-model": model.name, onclick: click },
      element("strong", {}, model.title),
      element("span", { class: "soft" }, size)
    );
  });
  const input = element(
    "input",
    { type: "file", accept, id: `file-${accept.length}`, onchange: () => input.files[0] && onFile(input.files[0]) }
  );
  const drop = element("div", { class: "drop" }, element("label", { for: input.id
                       }, `Or drop a file (${accept.split(",").join(", ")}) here, or choose one: `), input);
  const over = (isOver) => (event) => {
    event.preventDefault();
    drop.classList.toggle("over", isOver);
  };
  drop.addEventListener("dragover", over(true));
  drop.addEventListener("dragleave", over(false));
  drop.addEventListener("drop", (event) => {
    over(false)(event);
    if (event.dataTransfer.files[0]) onFile(event.dataTransfer.files[0]);
  });
  const none = element("p", { class: "soft" }, "This page was built without models: say make web-models.");
  const choices = models.length > 0 ? element("div", { class: "choices" }, ...buttons) : none;
  return {
    root: element("div", {}, choices, drop, error),
    press: (name) => buttons.forEach((each) => each.setAttribute("aria-pressed", each.dataset.model === name)),
    fail: (problem) => (error.textContent = problem ? problem.message : ""),
  };
}

/** A number field for each size of a program; `sizes()` reads them. */
export function sizeFields(symbols) {
  const fields = symbols.map(({ name, low, high }) => {
    const value = Math.min(Math.max(low, 4), high);
    const input = element("input", { type: "number", min: low, max: Number.isFinite(high) ? high : undefined, value });
    return { name, input, root: element("label", {}, `${name} `, input) };
  });
  return {
    root: element("div", { class: "tools" }, ...fields.map(({ root }) => root)),
    sizes: () => Object.fromEntries(fields.map(({ name, input }) => [name, Number(input.value)])),
  };
}

const FEW = 20; // points of a line that are marked

/** A chart of lines over the same axis: add([y, ...]) gives each line its next point. */
export class Chart {
  constructor(label, names, format) {
    Object.assign(this, { names, format, label });
    this.points = names.map(() => []);
    this.canvas = element("canvas", { class: "curve", role: "img", "aria-label": label });
    const key = (name, i) =>
      element("span", {}, element("span", { class: "bar", style: `width: 14px; background: var(--c${i})` }), name);
    this.root = element("div", {}, this.canvas, element("div", { class: "tools soft" }, ...names.map(key)));
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
  }

  clear() {
    this.points = this.names.map(() => []);
    this.redraw();
  }

  /** NaN is a gap. */
  add(values) {
    const MOST = 2000;
    values.forEach((value, i) => this.points[i].push(value));
    if (this.points[0].length > MOST) this.points = this.points.map((line) => line.filter((_, i) => i % 2 === 0));
    this.redraw();
  }

  redraw() {
    this.pending ??= requestAnimationFrame(() => {
      this.pending = undefined;
      this.#draw();
    });
  }

  #draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (width === 0) return;
    Object.assign(this.canvas, { width: width * devicePixelRatio, height: height * devicePixelRatio });
    const context = this.canvas.getContext("2d");
    const colour = (name) => getComputedStyle(this.canvas).getPropertyValue(`--${name}`);
    context.scale(devicePixelRatio, devicePixelRatio);
    const values = this.points.flat().filter(Number.isFinite);
    const most = values.reduce((high, value) => Math.max(high, value), 0) * 1.08 || 1;
    const [left, bottom] = [72, height - 12];
    const y = (value) => bottom - (value / most) * (bottom - 12);
    context.font = "11px system-ui, sans-serif";
    context.strokeStyle = colour("line");
    context.fillStyle = colour("soft");
    for (const part of [0, 0.5, 1]) {
      context.strokeRect(left, y(part * most), width - left - 10, 0);
      context.fillText(this.format(part * most), 6, y(part * most) + 4);
    }
    this.points.forEach((line, i) => {
      context.strokeStyle = colour(`c${i}`);
      context.lineWidth = 2;
      context.beginPath();
      const step = (width - left - 10) / Math.max(line.length - 1, 1);
      line.forEach((value, at) => Number.isFinite(value) && context.lineTo(left + at * step, y(value)));
      context.stroke();
      context.fillStyle = colour(`c${i}`);
      if (line.length <= FEW) line.forEach((value, at) => context.fillRect(left + at * step - 3, y(value) - 3, 6, 6));
    });
    const last = this.points.map((line, i) => `${this.names[i]} ${this.format(line.findLast(Number.isFinite) ?? 0)}`);
    this.canvas.setAttribute("aria-label", `${this.label}: ${last.join(", ")}, after ${this.points[0].length} points`);
  }
}
