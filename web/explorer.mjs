// Draws a program: its graph, its tasks, its memory and its time. The page shows it (explore.mjs), and so does
// `tenon inspect --html`, which writes pages of one file: this module imports nothing.
//
//     showReport(element, {description, profile, facts, text});
//
// `description` is what runtime/description.h makes. `profile` is {note, tasks: [{task, start, end, bytes, flops}]} in
// milliseconds, or null. `facts` are pairs of texts, and `text` is the graph's.

const BOX = { width: 196, height: 42, gapX: 26, gapY: 38 };
const ROW_HEIGHT = 30; // of the table, as in style.css
const LARGEST_SCALE = 3;
const READABLE = 0.85; // the scale in which a graph is shown that is too large as a whole

// ---- numbers for people ---------------------------------------------------------------------------------------------

export function bytesText(bytes) {
  if (bytes < 0) return "?";
  const units = ["bytes", "KiB", "MiB", "GiB"];
  const unit = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1);
  return unit === 0 ? `${bytes} bytes` : `${(bytes / 1024 ** unit).toFixed(1)} ${units[unit]}`;
}

export function timeText(milliseconds) {
  if (milliseconds < 1) return `${(milliseconds * 1e3).toFixed(1)} µs`;
  return milliseconds < 1000 ? `${milliseconds.toFixed(2)} ms` : `${(milliseconds / 1000).toFixed(2)} s`;
}

const rateText = (amount, milliseconds) =>
  amount < 0 || milliseconds <= 0 ? "" : (amount / milliseconds / 1e6).toFixed(2);

// ---- elements -------------------------------------------------------------------------------------------------------

/** element("p", {class: "soft"}, "text", child, ...). Properties whose names begin with "on" are listeners. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// ---- the program ----------------------------------------------------------------------------------------------------

// Parts of a list that repeat one after the other, the longest first found in each part: [{start, period, count}].
export function repeatedParts(keys, start = 0, end = keys.length) {
  const SHORTEST = 3;
  let best = { length: 0 };
  for (let period = SHORTEST; 2 * period <= end - start; ++period) {
    for (let i = start, same = 0; i + period <= end; ++i) {
      if (i + period < end && keys[i] === keys[i + period]) {
        ++same;
        continue;
      }
      const count = Math.floor(same / period) + 1;
      if (count > 1 && count * period > best.length) best = { start: i - same, period, count, length: count * period };
      same = 0;
    }
  }
  if (best.length === 0) return [];
  const { length, ...part } = best;
  return [...repeatedParts(keys, start, part.start), part, ...repeatedParts(keys, part.start + length, end)];
}

// Modules of consecutive tasks: [{name, first, end}], by the names of weights that each task reads. The module of
// "blocks.0.norm.weight" is "blocks.0": up to the first number after what all names begin with. A task that reads weights
// of several modules belongs to the last; one that reads none, to the module of the task before it.
export function modulesOf(weights) {
  const paths = weights.map((names) => names.map((name) => name.split(".")));
  const all = paths.flat();
  let common = 0;
  while (all.every((path) => path.length > common + 1 && path[common] === all[0][common]) && all.length > 1) ++common;
  const moduleOf = (path) => {
    const number = path.slice(common, -1).findIndex((part) => /^\d+$/.test(part));
    return number < 0 ? "" : path.slice(0, common + number + 1).join(".");
  };
  const modules = [];
  let last = { name: "" };
  paths.forEach((own, task) => {
    const name = own.length > 0 ? (own.map(moduleOf).findLast(Boolean) ?? "") : last.name;
    if (name !== last.name) modules.push((last = { name, first: task }));
    last.end = task + 1;
  });
  return modules.filter(({ name, first, end }) => name !== "" && end - first > 1);
}

class Program {
  constructor({ description, profile }) {
    Object.assign(this, description);
    this.tasks = description.tasks.map((task, number) => ({ ...task, number, time: null }));
    for (const time of profile?.tasks ?? []) this.tasks[time.task].time = time;
    this.total = this.tasks.reduce((sum, { time }) => sum + (time ? time.end - time.start : 0), 0);
    const names = new Map([...this.inputs, ...this.states].map(({ name, slot }) => [slot, name]));
    this.slots = description.slots.map((slot, number) => ({ ...slot, name: names.get(number) ?? slot.name }));
    this.blocks = modulesOf(this.tasks.map(({ inputs }) => this.weights(inputs)));
    this.hasModules = this.blocks.length > 0;
    if (!this.hasModules) this.blocks = this.#findRepeated();
    this.blockOf = this.tasks.map(() => -1);
    this.blocks.forEach(({ first, end }, block) => this.blockOf.fill(block, first, end));
  }

  /** The names of weights among slots. */
  weights(slots) {
    const roots = slots.map((slot) => this.slots[this.slots[slot].root]);
    return roots.filter(({ kind, name }) => name && (kind === "constant" || kind === "state")).map(({ name }) => name);
  }

  #findRepeated() {
    const keys = this.tasks.map(({ name, outputs }) => `${name} ${outputs.map((slot) => this.slots[slot].type)}`);
    return repeatedParts(keys).flatMap(({ start, period, count }, part) =>
      Array.from({ length: count }, (_, i) => {
        const first = start + i * period;
        return { name: `repeated part ${part + 1}, ${i + 1} of ${count}`, first, end: first + period };
      }),
    );
  }

  // The task that writes a slot; -1: none does.
  writer(slot) {
    return this.slots[this.slots[slot].root].first;
  }

  duration(task) {
    return task.time ? task.time.end - task.time.start : 0;
  }

  matches(task, words) {
    const text = `${task.number} ${task.name} ${task.kind} ${task.ops.join(" ")} ${task.place}`.toLowerCase();
    return words.every((word) => text.includes(word));
  }
}

// Boxes of the graph: tasks, blocks that are closed, inputs and outputs; each in a row below those that it depends on.
function layOut(program, closed) {
  const boxes = [];
  const boxOf = new Map(); // by "task 3", "block 1", "input 0"
  const add = (key, box) => {
    boxOf.set(key, { ...box, key, from: new Set(), row: 0 });
    boxes.push(boxOf.get(key));
    return boxOf.get(key);
  };
  const boxOfTask = (number) => {
    const block = program.blockOf[number];
    return boxOf.get(block >= 0 && closed.has(block) ? `block ${block}` : `task ${number}`);
  };
  const inputs = new Map(program.inputs.map((input, i) => [program.slots[input.slot].root, i]));
  const inputBox = (i) => {
    const { name, slot } = program.inputs[i];
    return boxOf.get(`input ${i}`) ??
      add(`input ${i}`, { label: name, note: program.slots[slot].type, kind: "tensor" });
  };
  for (const task of program.tasks) {
    const block = program.blockOf[task.number];
    if (boxOfTask(task.number) === undefined && block >= 0 && closed.has(block)) {
      const { name, first, end } = program.blocks[block];
      add(`block ${block}`, { label: name, note: `${end - first} tasks`, kind: "block", first, end, block });
    } else if (boxOfTask(task.number) === undefined) {
      const note = task.device ? `${task.kind} of ${task.device}` : task.kind;
      add(`task ${task.number}`, { label: task.name, note, kind: task.kind, first: task.number, end: task.number + 1 });
    }
    const box = boxOfTask(task.number);
    for (const slot of task.inputs) {
      const writer = program.writer(slot);
      const root = program.slots[slot].root;
      if (writer >= 0 && writer < task.number && boxOfTask(writer) !== box) box.from.add(boxOfTask(writer));
      else if (inputs.has(root)) box.from.add(inputBox(inputs.get(root)));
    }
  }
  program.outputs.forEach(({ name, slot }, i) => {
    const box = add(`output ${i}`, { label: name, note: program.slots[slot].type, kind: "tensor" });
    if (program.writer(slot) >= 0) box.from.add(boxOfTask(program.writer(slot)));
  });
  return place(boxes);
}

// Gives each box its row, and its place in the row: near those that it reads, so that few lines cross.
function place(boxes) {
  const rows = [];
  const order = [...boxes].sort((a, b) => (a.first ?? -1) - (b.first ?? -1) || 0);
  const last = order.filter(({ key }) => key.startsWith("output"));
  for (const box of [...order.filter((each) => !last.includes(each)), ...last]) {
    for (const from of box.from) box.row = Math.max(box.row, from.row + 1);
    (rows[box.row] ??= []).push(box);
  }
  const step = BOX.width + BOX.gapX;
  for (const row of rows) {
    const wish = (box) => (box.from.size ? [...box.from].reduce((sum, from) => sum + from.x, 0) / box.from.size : 0);
    row.forEach((box) => (box.wish = wish(box)));
    row.sort((a, b) => a.wish - b.wish);
    const middle = row.reduce((sum, box) => sum + box.wish, 0) / row.length;
    row.forEach((box, i) => {
      box.x = middle + (i - (row.length - 1) / 2) * step;
      box.y = box.row * (BOX.height + BOX.gapY);
    });
  }
  const left = Math.min(...boxes.map(({ x }) => x));
  for (const box of boxes) box.x -= left;
  const width = Math.max(...boxes.map(({ x }) => x)) + BOX.width;
  return { boxes, width, height: rows.length * (BOX.height + BOX.gapY) - BOX.gapY };
}

// ---- a canvas that can be moved and zoomed --------------------------------------------------------------------------

class Plot {
  scale = 1;
  x = 0; // what of the content lies at the left and upper border
  y = 0;

  // `draw(context, colour)` in units of the content, `pick(x, y)` is called for a click there. Without `isFlat`, both
  // directions are zoomed; else the content's height is the canvas's. `home` gives what is shown of a large content.
  constructor({ label, height, isFlat = false, draw, pick, keys = {}, home }) {
    Object.assign(this, { draw, pick, isFlat, keys, home, content: { width: 1, height: 1 } });
    this.canvas = element("canvas", { tabindex: 0, role: "application", "aria-label": label });
    this.canvas.style.height = height;
    const zoom = (factor, name, text) =>
      element("button", { type: "button", "aria-label": name, onclick: () => this.zoom(factor) }, text);
    this.buttons = element(
      "div",
      { class: "zoom", role: "group", "aria-label": "Zoom" },
      zoom(1 / 1.4, "Zoom out", "−"),
      zoom(1.4, "Zoom in", "+"),
      element("button", { type: "button", onclick: () => this.fit() }, "Fit"),
    );
    this.frame = element("div", { class: "plot" }, this.buttons, this.canvas);
    new ResizeObserver(() => this.#resized()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    this.#listen();
  }

  show(content) {
    this.content = content;
    this.fit();
  }

  // Shows all of it, or a part in a size that can be read.
  fit() {
    const { clientWidth, clientHeight } = this.canvas;
    const [wide, high] = [clientWidth / this.content.width, clientHeight / this.content.height];
    const scale = Math.min(wide, high, 1);
    this.scale = this.isFlat ? wide : Math.max(scale, READABLE);
    this.x = this.isFlat ? 0 : Math.min((this.content.width - clientWidth / this.scale) / 2, this.content.width);
    this.y = this.isFlat ? 0 : Math.min((this.content.height - clientHeight / this.scale) / 2, -8);
    if (!this.isFlat && scale < READABLE) this.reveal(...this.home());
    this.redraw();
  }

  zoom(factor, at = this.canvas.clientWidth / 2, from = this.canvas.clientHeight / 2) {
    const least = this.isFlat ? this.canvas.clientWidth / this.content.width : 0.02;
    const scale = Math.max(Math.min(this.scale * factor, this.isFlat ? least * 400 : LARGEST_SCALE), least);
    this.x += at / this.scale - at / scale;
    if (!this.isFlat) this.y += from / this.scale - from / scale;
    this.scale = scale;
    this.redraw();
  }

  move(byX, byY) {
    this.x += byX / this.scale;
    if (!this.isFlat) this.y += byY / this.scale;
    this.redraw();
  }

  // Moves so that this box of the content can be seen.
  reveal(x, y, width) {
    const [wide, high] = [this.canvas.clientWidth / this.scale, this.canvas.clientHeight / this.scale];
    if (x < this.x || x + width > this.x + wide) this.x = x + width / 2 - wide / 2;
    if (!this.isFlat && (y < this.y || y + BOX.height > this.y + high)) this.y = y - high / 2;
    this.redraw();
  }

  redraw() {
    this.pending ??= requestAnimationFrame(() => {
      this.pending = undefined;
      const context = this.canvas.getContext("2d");
      const style = getComputedStyle(this.canvas);
      const dots = devicePixelRatio;
      context.setTransform(dots, 0, 0, dots, 0, 0);
      context.clearRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
      const scaleY = this.isFlat ? this.canvas.clientHeight / this.content.height : this.scale;
      this.view = { x: this.x, y: this.y, width: this.canvas.clientWidth / this.scale, scale: this.scale, scaleY };
      this.view.height = this.canvas.clientHeight / scaleY;
      this.draw(context, (name) => style.getPropertyValue(`--${name}`), this.view);
    });
  }

  #resized() {
    const { clientWidth, clientHeight } = this.canvas;
    if (clientWidth === 0) return;
    Object.assign(this.canvas, { width: clientWidth * devicePixelRatio, height: clientHeight * devicePixelRatio });
    this.fit();
  }

  #listen() {
    const pointers = new Map();
    let moved = 0;
    const spread = () => {
      const [a, b] = [...pointers.values()];
      return Math.hypot(a.offsetX - b.offsetX, a.offsetY - b.offsetY);
    };
    const on = (name, listener) => this.canvas.addEventListener(name, listener);
    on("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, event);
      moved = 0;
    });
    on("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (before === undefined) return;
      const wide = pointers.size === 2 ? spread() : 0;
      pointers.set(event.pointerId, event);
      moved += Math.abs(event.offsetX - before.offsetX) + Math.abs(event.offsetY - before.offsetY);
      if (pointers.size === 2) this.zoom(spread() / Math.max(wide, 1), event.offsetX, event.offsetY);
      else this.move(before.offsetX - event.offsetX, before.offsetY - event.offsetY);
    });
    on("pointerup", (event) => {
      pointers.delete(event.pointerId);
      if (moved < 6) this.pick(this.x + event.offsetX / this.scale, this.y + event.offsetY / this.view.scaleY);
    });
    on("pointercancel", (event) => pointers.delete(event.pointerId));
    on("wheel", (event) => {
      // The page scrolls unless the reader is in the picture.
      if (!event.ctrlKey && document.activeElement !== this.canvas) return;
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
    });
    on("keydown", (event) => {
      const keys = { "+": () => this.zoom(1.4), "-": () => this.zoom(1 / 1.4), 0: () => this.fit(), ...this.keys };
      if (keys[event.key] === undefined) return;
      event.preventDefault();
      keys[event.key]();
    });
  }
}

function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}

// ---- the parts of the page ------------------------------------------------------------------------------------------

class Explorer {
  constructor(root, report) {
    this.program = new Program(report);
    this.report = report;
    this.closed = new Set(this.program.blocks.keys());
    this.selected = this.program.tasks.length > 0 ? 0 : -1;
    this.found = null; // numbers of tasks that the search finds; null: there is no search
    root.replaceChildren(
      this.#facts(), this.#tools(), this.#graph(), this.#details(), ...this.#time(), ...this.#memory()
    );
    root.append(...this.#table(), ...this.#text());
    this.#layOut();
    this.select(this.selected, { isQuiet: true });
  }

  select(number, { isQuiet = false } = {}) {
    this.selected = number;
    if (!isQuiet) this.graph.reveal(...this.#selectedPlace());
    this.#showDetails();
    for (const plot of [this.graph, this.time, this.memory]) plot?.redraw();
    this.#fillTable();
  }

  // {x, y, width} of the selected box, as a list.
  #selectedPlace() {
    const box = this.layout.boxes.find(({ first, end }) => first <= this.selected && this.selected < end);
    return [box?.x ?? 0, box?.y ?? 0, BOX.width];
  }

  #facts() {
    const { tasks, blocks, plan } = this.program;
    const facts = [
      ["tasks", `${tasks.length}`],
      blocks.length > 0 && [this.program.hasModules ? "modules" : "repeated parts", `${blocks.length}`],
      ...(this.report.facts ?? []),
      plan && ["temporaries, planned", bytesText(plan.bytes)],
      plan && plan.least > 0 && ["of the least possible", `${(plan.bytes / plan.least).toFixed(3)}x`],
      this.program.total > 0 && ["time of all tasks", timeText(this.program.total)],
    ].filter(Boolean);
    const fact = ([what, value]) => element("div", {}, element("dt", {}, what), element("dd", {}, value));
    return element("dl", { class: "facts", id: "facts" }, ...facts.map(fact));
  }

  #tools() {
    const search = element("input", { type: "search", id: "search", placeholder: "name, op, file or number" });
    const found = (this.foundText = element("output", { for: "search" }));
    search.addEventListener("input", () => this.#search(search.value, found));
    search.addEventListener("keydown", ({ key }) => key === "Enter" && this.#selectNext());
    const blocks = element("input", { type: "checkbox", id: "collapse", checked: true });
    blocks.addEventListener("change", () => {
      this.closed = new Set(blocks.checked ? this.program.blocks.keys() : []);
      this.#layOut();
    });
    const collapse = element("label", {}, blocks, ` Collapse ${this.program.hasModules ? "modules" : "repeated parts"}`);
    return element(
      "div",
      { class: "tools" },
      element("label", {}, "Search tasks ", search),
      found,
      this.program.blocks.length > 0 ? collapse : null,
    );
  }

  #search(text, output) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const matching = this.program.tasks.filter((task) => this.program.matches(task, words));
    this.found = words.length > 0 ? new Set(matching.map(({ number }) => number)) : null;
    output.textContent = this.found ? `${this.found.size} of ${this.program.tasks.length}` : "";
    this.#sortTable();
    this.select(matching.length > 0 && this.found ? matching[0].number : this.selected);
  }

  // What Enter does in the search.
  #selectNext() {
    const numbers = [...(this.found ?? [])];
    if (numbers.length > 0) this.select(numbers.find((number) => number > this.selected) ?? numbers[0]);
  }

  // ---- the graph

  #graph() {
    const step = (by) => () => this.#step(by);
    this.graph = new Plot({
      label:
        "The graph. Arrows select the task before and after, Enter opens and closes a module or a repeated part, + and - zoom.",
      height: "min(62vh, 560px)",
      draw: (context, colour, view) => this.#drawGraph(context, colour, view),
      pick: (x, y) => this.#pickBox(x, y),
      home: () => this.#selectedPlace(),
      keys: {
        ...{ ArrowDown: step(1), ArrowRight: step(1), ArrowUp: step(-1), ArrowLeft: step(-1) },
        Enter: () => this.#toggle(this.program.blockOf[this.selected]),
      },
    });
    return element("section", { "aria-label": "Graph" }, element("h2", {}, "Graph"), this.graph.frame);
  }

  #step(by) {
    const boxes = this.layout.boxes.filter(({ first }) => first !== undefined).sort((a, b) => a.first - b.first);
    const at = boxes.findIndex(({ first, end }) => first <= this.selected && this.selected < end);
    const next = boxes[Math.min(Math.max(at + by, 0), boxes.length - 1)];
    if (next !== undefined) this.select(next.first);
  }

  #layOut() {
    this.layout = layOut(this.program, this.closed);
    this.graph.canvas.dataset.boxes = this.layout.boxes.length;
    this.graph.show(this.layout);
  }

  #toggle(block) {
    if (block < 0) return;
    if (!this.closed.delete(block)) this.closed.add(block);
    const { scale, x, y } = this.graph;
    this.#layOut();
    Object.assign(this.graph, { scale, x, y });
    this.select(this.selected);
  }

  #pickBox(x, y) {
    const inside = (box) => x >= box.x && x <= box.x + BOX.width && y >= box.y && y <= box.y + BOX.height;
    const box = this.layout.boxes.find(inside);
    if (box?.first === undefined) return;
    const isAgain = box.first <= this.selected && this.selected < box.end;
    if (isAgain) this.#toggle(this.program.blockOf[box.first]);
    else this.select(box.first);
  }

  #drawGraph(context, colour, view) {
    const canSee = ({ x, y }) =>
      x + BOX.width > view.x && x < view.x + view.width && y + BOX.height > view.y && y < view.y + view.height;
    context.scale(view.scale, view.scale);
    context.translate(-view.x, -view.y);
    context.lineWidth = 1.2;
    context.strokeStyle = colour("soft");
    for (const box of this.layout.boxes) {
      for (const from of box.from) {
        const [top, bottom] = [from.y + BOX.height, box.y];
        if (bottom < view.y || top > view.y + view.height) continue;
        const [x1, x2] = [from.x + BOX.width / 2, box.x + BOX.width / 2];
        const bend = Math.max(BOX.gapY / 2, (bottom - top) / 3);
        context.globalAlpha = 0.55;
        context.beginPath();
        context.moveTo(x1, top);
        context.bezierCurveTo(x1, top + bend, x2, bottom - bend, x2, bottom);
        context.stroke();
      }
    }
    context.globalAlpha = 1;
    const seen = this.layout.boxes.filter(canSee);
    this.graph.canvas.dataset.drawn = seen.length;
    for (const box of seen) this.#drawBox(context, colour, box, view.scale);
  }

  #drawBox(context, colour, box, scale) {
    const isSelected = box.first <= this.selected && this.selected < box.end;
    const isFound = box.first !== undefined && this.#isFound(box);
    context.globalAlpha = isFound || this.found === null ? 1 : 0.3;
    context.fillStyle = colour(box.kind);
    context.strokeStyle = isSelected ? colour("accent") : colour("line");
    context.lineWidth = isSelected ? 3 : 1;
    context.beginPath();
    context.roundRect(box.x, box.y, BOX.width, BOX.height, box.kind === "tensor" ? 20 : 6);
    context.fill();
    context.stroke();
    if (scale > 0.3) {
      const [left, width] = [box.x + (box.kind === "tensor" ? 18 : 10), BOX.width - 24];
      context.fillStyle = colour("ink");
      context.font = "13px system-ui, sans-serif";
      context.fillText(shortened(context, box.label, width), left, box.y + 18);
      context.fillStyle = colour("soft");
      context.font = "11px system-ui, sans-serif";
      context.fillText(shortened(context, box.note, width), left, box.y + 33);
    }
    context.globalAlpha = 1;
  }

  #isFound({ first, end }) {
    if (this.found === null) return false;
    for (let number = first; number < end; ++number) if (this.found.has(number)) return true;
    return false;
  }

  // ---- one task

  #details() {
    this.details = element("section", { id: "task", "aria-live": "polite", "aria-label": "The selected task" });
    return this.details;
  }

  #showDetails() {
    const task = this.program.tasks[this.selected];
    if (task === undefined) return this.details.replaceChildren();
    const { slots, loops } = this.program;
    const tensor = (slot) => {
      const { type, kind, bytes, root } = slots[slot];
      const about = [slots[root].name, kind, bytesText(bytes)].filter(Boolean).join(", ");
      return element("li", {}, element("code", {}, type), ` ${about}`);
    };
    const list = (name, numbers) =>
      element("div", {}, element("h4", {}, name), element("ul", { class: "plain" }, ...numbers.map(tensor)));
    const block = this.program.blocks[this.program.blockOf[task.number]];
    const notes = [task.kind, task.device, task.place, block?.name, this.#speedText(task)].filter(Boolean);
    this.details.replaceChildren(
      element("h3", {}, `${task.number}: ${task.name}`),
      element("p", { class: "soft" }, notes.join(" · ")),
      element("p", {}, `Computes ${task.ops.join(", ") || task.name}.`),
      element("div", { class: "columns" }, list("Reads", task.inputs), list("Writes", task.outputs)),
      task.loops >= 0 ? element("pre", { tabindex: 0, "aria-label": "Loops" }, loops[task.loops]) : "",
    );
  }

  #speedText(task) {
    if (task.time === null) return "";
    const time = this.program.duration(task);
    const [flops, bytes] = [rateText(task.time.flops, time), rateText(task.time.bytes, time)];
    return [timeText(time), flops && `${flops} GFLOP/s`, bytes && `${bytes} GB/s`].filter(Boolean).join(", ");
  }

  // ---- time and memory

  #time() {
    if (this.program.total === 0) return [];
    const timed = this.program.tasks.filter(({ time }) => time !== null);
    const start = Math.min(...timed.map(({ time }) => time.start));
    const end = Math.max(...timed.map(({ time }) => time.end));
    const pick = (x) => {
      const found = timed.find(({ time }) => x >= time.start - start && x <= time.end - start);
      if (found) this.select(found.number);
    };
    const draw = (context, colour, view) => {
      for (const task of timed) {
        const [left, right] = [task.time.start, task.time.end].map((at) => (at - start - view.x) * view.scale);
        context.fillStyle = task.number === this.selected ? colour("accent") : colour(`c${task.number % 6}`);
        context.globalAlpha = this.found === null || this.found.has(task.number) ? 1 : 0.25;
        context.fillRect(left, 4, Math.max(right - left - 0.5, 0.7), view.height * view.scaleY - 8);
        if (right - left < 40) continue;
        context.fillStyle = task.number === this.selected ? colour("page") : colour("ink");
        context.font = "11px system-ui, sans-serif";
        context.fillText(shortened(context, task.name, right - left - 8), left + 4, 26);
      }
      context.globalAlpha = 1;
    };
    const label = `Time of ${timed.length} tasks, ${
      timeText(end - start)} from the first to the last. The table below has it as text.`;
    this.time = new Plot({ label, height: "44px", isFlat: true, draw, pick, keys: this.graph.keys });
    this.time.content = { width: end - start, height: 44 };
    const note = `Tasks one after the other. ${this.report.profile.note}`;
    const title = [element("h2", {}, "Time"), element("p", { class: "soft" }, note)];
    return [element("section", { "aria-label": "Time" }, ...title, this.time.frame)];
  }

  #memory() {
    const { plan, tasks, slots } = this.program;
    const title = element("h2", {}, "Memory over time");
    const none = (text) => [element("section", {}, title, element("p", { class: "soft", id: "memory" }, text))];
    if (plan === null) return none("The plan follows from sizes that no run has set yet.");
    if (plan.bytes === 0) return none("The program has no temporaries.");
    const placed = slots.filter(({ offset, first }) => offset >= 0 && first >= 0);
    const live = tasks.map(() => 0);
    for (const { first, last, bytes } of placed)
      for (let task = first; task <= Math.min(last, tasks.length - 1); ++task) live[task] += bytes;
    const lifetime = ({ first, last, offset, bytes }) => [first, Math.min(last, tasks.length - 1) + 1, offset, bytes];
    const pick = (x, y) => {
      const at = plan.bytes - y;
      const slot = placed.find((each) => {
        const [first, end, offset, bytes] = lifetime(each);
        return x >= first && x < end && at >= offset && at < offset + bytes;
      });
      if (slot) this.select(slot.first);
    };
    const draw = (...to) => this.#drawMemory(placed.map(lifetime), live, ...to);
    const most = bytesText(plan.bytes);
    const label = `${placed.length} temporaries in ${most}, over ${tasks.length} tasks.`;
    this.memory = new Plot({ label, height: "260px", isFlat: true, draw, pick, keys: this.graph.keys });
    this.memory.content = { width: tasks.length, height: plan.bytes };
    const note =
      `Each block is a temporary, from the task that writes it to the last that reads it, at its place in the ${
        most} of the arena. The line is the sum of what lives.`;
    return [
      element(
        "section",
        { "aria-label": "Memory", id: "memory", "data-temporaries": placed.length },
        title,
        element("p", { class: "soft" }, note),
        this.memory.frame
      ),
    ];
  }

  #drawMemory(lifetimes, live, context, colour, view) {
    const top = (bytes) => (this.program.plan.bytes - bytes) * view.scaleY;
    const left = (task) => (task - view.x) * view.scale;
    lifetimes.forEach(([first, end, offset, bytes], i) => {
      const isSelected = first === this.selected;
      context.fillStyle = isSelected ? colour("accent") : colour(`c${i % 6}`);
      const width = Math.max((end - first) * view.scale - 0.5, 0.7);
      context.fillRect(left(first), top(offset + bytes), width, Math.max(bytes * view.scaleY - 0.5, 0.7));
    });
    context.strokeStyle = colour("ink");
    context.lineWidth = 1.5;
    context.beginPath();
    live.forEach((bytes, task) => {
      context.lineTo(left(task), top(bytes));
      context.lineTo(left(task + 1), top(bytes));
    });
    context.stroke();
  }

  // ---- all tasks

  #table() {
    const names = ["#", "Task", "Kind", "Time", "GFLOP/s", "GB/s", "Where"];
    const sorts = { "#": (task) => task.number, Time: (task) => -this.program.duration(task) };
    const header = (name) =>
      element(
        "th",
        { scope: "col" },
        sorts[name] ? element("button", { type: "button", onclick: () => this.#sortTable(sorts[name]) }, name) : name,
      );
    this.rows = element("tbody");
    const head = element("thead", {}, element("tr", {}, ...names.map(header)));
    const table = element("table", { id: "tasks", "aria-rowcount": this.program.tasks.length + 1 }, head, this.rows);
    this.scroll = element(
      "div",
      { class: "rows", tabindex: 0, role: "region", "aria-label": "Tasks", onscroll: () => this.#fillTable() },
      table
    );
    this.#sortTable(sorts["#"]);
    new ResizeObserver(() => this.#fillTable()).observe(this.scroll);
    return [element("section", { "aria-label": "Tasks" }, element("h2", {}, "Tasks"), this.scroll)];
  }

  #sortTable(key = this.sortKey) {
    this.sortKey = key;
    this.listed = this.program.tasks.filter(({ number }) => this.found?.has(number) ?? true);
    this.listed.sort((a, b) => key(a) - key(b));
    if (this.scroll) this.#fillTable();
  }

  // Only rows that can be seen exist: a program may have thousands of tasks.
  #fillTable() {
    const first = Math.max(Math.floor(this.scroll.scrollTop / ROW_HEIGHT) - 4, 0);
    const end = Math.min(first + Math.ceil((this.scroll.clientHeight || 360) / ROW_HEIGHT) + 8, this.listed.length);
    const space = (rows) =>
      element("tr", { "aria-hidden": true }, element("td", { colspan: 7, style: `height: ${rows * ROW_HEIGHT}px` }));
    const rows = this.listed.slice(first, end).map((task, i) => this.#row(task, first + i));
    this.rows.replaceChildren(...(first > 0 ? [space(first)] : []), ...rows);
    if (end < this.listed.length) this.rows.append(space(this.listed.length - end));
  }

  #row(task, place) {
    const time = this.program.duration(task);
    const part = this.program.total > 0 ? time / this.program.total : 0;
    const bar = element("span", { class: "bar", style: `width: ${(60 * part).toFixed(1)}px` });
    const name =
      element("button", { type: "button", class: "link", onclick: () => this.select(task.number) }, task.name);
    const speed = (amount) => (task.time ? rateText(amount, time) : "");
    return element(
      "tr",
      {
        id: `task-${task.number}`,
        "aria-rowindex": place + 2,
        class: task.number === this.selected ? "selected" : undefined
      },
      element("td", { class: "number" }, `${task.number}`),
      element("td", {}, name),
      element("td", {}, task.device ? `${task.kind} (${task.device})` : task.kind),
      element("td", { class: "number" }, bar, task.time ? timeText(time) : ""),
      element("td", { class: "number" }, speed(task.time?.flops)),
      element("td", { class: "number" }, speed(task.time?.bytes)),
      element("td", {}, task.place),
    );
  }

  #text() {
    if (!this.report.text) return [];
    const text = element("pre", { tabindex: 0, "aria-label": "The graph as text" }, this.report.text);
    return [element("details", { id: "graph-text" }, element("summary", {}, "The graph as text"), text)];
  }
}

/** Fills `root` with what there is to see of a program. */
export function showReport(root, report) {
  return new Explorer(root, report);
}
