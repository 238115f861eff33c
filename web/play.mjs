// The playground: a kernel in JavaScript, its loops, which the reader edits, and what comes of them.
import { element, timeText } from "./explorer.mjs";
import { Chart } from "./fields.mjs";
import { LoopList } from "./loop_list.mjs";
import { MemoryPicture } from "./memory_picture.mjs";

const LONGEST = 10_000; // milliseconds of a kernel, before it is ended
const MEASURED = 0.1; // seconds of a measurement,
const PAUSE = 900; // and milliseconds to the next
const LIMITS = [500, 5000, 20000]; // accesses in the picture
const LONGEST_TEXT = 200_000; // characters of WebAssembly that are shown

const SYMBOLS = (names) => `const [${names.join(", ")}] = [${names.map((name) => `"${name}"`).join(", ")}]`;

/** A kernel is the body of a function that returns a Tensor; docs/web-kernels.md says what it may use. */
export const EXAMPLES = [
  {
    name: "Product of matrices",
    source: `${SYMBOLS(["m", "k", "n"])}.map((name) => new Symbol(name));
const a = random(256, 256).to(m, k);
const b = random(256, 256).to(k, n);
return a.mul(b).sum(k);
`,
  },
  {
    name: "Softmax of rows",
    source: `${SYMBOLS(["row", "column"])}.map((name) => new Symbol(name));
const x = random(256, 256).to(row, column);
const e = x.sub(x.max(column)).exp();
return e.div(e.sum(column));
`,
  },
  {
    name: "Blur of a picture",
    source: `${SYMBOLS(["y", "x", "i", "j"])}.map((name) => new Symbol(name));
const picture = random(256, 256).to(y, x).pad(y, 1).pad(x, 1);
const [row, column] = picture.symbols;
return picture.index(y.add(i), x.add(j)).with_sizes([i, 3], [j, 3]).sum(i, j).mul(1 / 9);
`,
  },
  {
    name: "Transposition",
    source: `${SYMBOLS(["i", "j"])}.map((name) => new Symbol(name));
const x = random(512, 512).to(i, j);
return x.transpose(j, i).add(0);
`,
  },
  {
    name: "Sum of all elements",
    source: `const i = new Symbol("i");
return random(1_000_000).to(i).sum(i);
`,
  },
];

// ---- links ----------------------------------------------------------------------------------------------------------

const toLink = (text) =>
  btoa(String.fromCharCode(...new TextEncoder().encode(text))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
const fromLink = (text) =>
  new TextDecoder().decode(Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0)));

/** The part of an address behind # for a kernel and its edits. */
export const linkOf = ({ source, edits }) => `#play?k=${toLink(JSON.stringify({ source, edits }))}`;

/** The kernel of such an address; null: it has none. Throws where it is damaged. */
export function kernelOf(hash) {
  const found = /^#play\?k=([\w-]+)$/.exec(hash);
  if (found === null) return null;
  const { source, edits } = JSON.parse(fromLink(found[1]));
  const isText = (value) => typeof value === "string";
  if (!isText(source) || !Array.isArray(edits) || !edits.every(isText)) throw new Error("it has no kernel");
  return { source, edits };
}

// ---- the worker -----------------------------------------------------------------------------------------------------

// A worker that is loaded from a blob has the content security policy of this page: a kernel that somebody sent can send
// nothing elsewhere. One that is loaded from a file has the policy that the server sends, which may be none.
const SCRIPT = `import ${JSON.stringify(new URL("play_worker.mjs", import.meta.url))};`;
const WORKER = URL.createObjectURL(new Blob([SCRIPT], { type: "text/javascript" }));

class Bench {
  #worker = null;
  #waiting = new Map(); // {resolve, reject, timer} by number
  #next = 0;

  ask(method, ...args) {
    this.#worker ??= this.#start();
    const number = this.#next++;
    return new Promise((resolve, reject) => {
      const late = () => this.#end(new Error(`the kernel ran for more than ${LONGEST / 1000} s, and was ended`));
      this.#waiting.set(number, { resolve, reject, timer: setTimeout(late, LONGEST) });
      this.#worker.postMessage({ number, method, args });
    });
  }

  #start() {
    const worker = new Worker(WORKER, { type: "module" });
    worker.onerror = (event) => this.#end(new Error(`the worker failed: ${event.message ?? "it could not be loaded"}`));
    worker.onmessage = ({ data: { number, result, error } }) => {
      const { resolve, reject, timer } = this.#waiting.get(number);
      this.#waiting.delete(number);
      clearTimeout(timer);
      error === undefined ? resolve(result) : reject(new Error(error));
    };
    return worker;
  }

  #end(error) {
    this.#worker.terminate();
    this.#worker = null;
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer);
      reject(error);
    }
    this.#waiting.clear();
  }
}

// ---- the page -------------------------------------------------------------------------------------------------------

const numberText = (value) => String(Number(value.toPrecision(5)));

function resultText({ dtype, shape, first, difference }) {
  const same = difference === 0 ? "equal to plain loops" : `within ${difference.toExponential(1)} of plain loops`;
  const more = shape.reduce((product, size) => product * size, 1) > first.length ? ", …" : "";
  return [`${dtype}[${shape.join(", ")}]`, `${first.map(numberText).join(", ")}${more}`, same];
}

class Page {
  #bench = new Bench();
  #source = null; // of the kernel that is shown; null: none is
  #edits = [];
  #undone = [];
  #selected = 0;
  #round = 0; // of measurements: an edit starts another

  constructor(root) {
    this.root = root;
    root.append(
      element("h1", {}, "Playground"),
      element(
        "p",
        { class: "soft" },
        "A kernel in JavaScript, compiled here. Edit its loops: the result stays, its speed does not."
      ),
      this.#editor(),
      (this.error = element("p", { class: "error", role: "alert", id: "play-error" })),
      (this.facts = element("dl", { class: "facts", id: "play-facts" })),
      element("div", { class: "columns wide" }, this.#loops(), this.#speed()),
      this.#memory(),
      this.#code(),
    );
    addEventListener("hashchange", () => this.#follow());
    this.#follow() || this.#choose(0);
    this.#live();
  }

  // ---- the kernel

  #editor() {
    const options = EXAMPLES.map(({ name }, i) => element("option", { value: i }, name));
    const own = (this.own = element("option", { value: "own", hidden: true }, "My own"));
    this.examples = element("select", { id: "example" }, ...options, own);
    this.examples.addEventListener("change", () => this.#choose(Number(this.examples.value)));
    this.text = element("textarea", { id: "kernel", rows: 7, spellcheck: "false", autocapitalize: "off" });
    this.text.classList.add("code");
    this.text.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      this.#run();
    });
    const run = element("button", { type: "button", class: "main", id: "play", onclick: () => this.#run() }, "Run");
    run.setAttribute("aria-keyshortcuts", "Control+Enter");
    const share = element("button", { type: "button", id: "share", onclick: () => this.#share() }, "Copy link");
    this.shared = element("output", { class: "soft", for: "share" });
    return element(
      "section",
      { "aria-label": "Kernel" },
      element("div", { class: "tools" }, element("label", {}, "Example ", this.examples), run, share, this.shared),
      element("label", { for: "kernel", class: "soft" }, "The body of a function that returns a Tensor; Ctrl+Enter runs it"),
      this.text,
    );
  }

  #choose(example) {
    this.text.value = EXAMPLES[example].source;
    this.examples.value = String(example);
    this.#run();
  }

  #run() {
    this.#apply(this.text.value, [], { isNew: true });
  }

  // A kernel that is somebody's waits for the reader, who may look at it first.
  #follow() {
    let kernel;
    try {
      kernel = kernelOf(location.hash);
    } catch (error) {
      this.error.textContent = `The link is damaged: ${error.message}`;
      return true;
    }
    if (kernel === null || this.#isShown(kernel)) return false;
    this.text.value = kernel.source;
    const example = EXAMPLES.findIndex(({ source }) => source === kernel.source);
    this.#showExample(example);
    this.#linked = kernel;
    if (example >= 0) this.#apply(kernel.source, kernel.edits, { isNew: true });
    else this.error.textContent = "This kernel came with the link, and runs when you press Run.";
    return true;
  }
  #linked = null; // the kernel of the link, whose edits Run takes along

  #isShown({ source, edits }) {
    return source === this.#source && JSON.stringify(edits) === JSON.stringify(this.#edits);
  }

  #showExample(example) {
    this.own.hidden = example >= 0;
    this.examples.value = example >= 0 ? String(example) : "own";
  }

  async #share() {
    const text = new URL(linkOf({ source: this.text.value, edits: this.#edits }), location.href).href;
    try {
      await navigator.clipboard.writeText(text);
      this.shared.textContent = "The link is copied: it has the kernel and the edits.";
    } catch {
      this.shared.textContent = "The address of this page is the link.";
    }
  }

  // ---- what is shown

  // Shows the kernel under these edits, the last of which may be refused.
  async #apply(source, edits, { isNew = false, ref = null } = {}) {
    const own = isNew && this.#linked?.source === source ? this.#linked.edits : edits;
    this.#linked = null;
    const round = ++this.#round;
    this.root.setAttribute("aria-busy", "true");
    try {
      const limit = Number(this.limit.value);
      const shown = await this.#bench.ask("show", { source, edits: own, ref, limit });
      if (round !== this.#round) return;
      this.error.textContent = shown.refused ?? "";
      if (shown.refused === null) this.#keep(source, own, isNew);
      this.#show(shown, isNew);
      await this.#measure(round, true);
    } catch (error) {
      if (round === this.#round) this.error.textContent = error.message;
    } finally {
      if (round === this.#round) this.root.removeAttribute("aria-busy");
    }
  }

  #keep(source, edits, isNew) {
    if (isNew) this.chart.clear();
    if (isNew) this.#undone = [];
    [this.#source, this.#edits] = [source, edits];
    this.#showExample(EXAMPLES.findIndex((each) => each.source === source));
    if (location.hash.startsWith("#play")) history.replaceState(null, "", linkOf({ source, edits }));
    this.history.textContent = edits.length === 0 ? "plain loops" : edits.join("; ");
    this.undo.disabled = edits.length === 0;
    this.redo.disabled = this.#undone.length === 0;
  }

  #show({ refs, code, accesses, result, ref }, isNew) {
    this.#selected = Math.min(ref ?? (isNew ? 0 : this.#selected), refs.length - 1);
    this.list.show(refs, this.#selected);
    this.picture.show(accesses);
    const lines = code.split("\n").length;
    this.codeTitle.textContent = `WebAssembly, ${lines} lines`;
    this.wasm.textContent = code.length <= LONGEST_TEXT ? code : `${code.slice(0, LONGEST_TEXT)}\n…`;
    const [type, values, same] = resultText(result);
    const fact = ([what, value]) => element("div", {}, element("dt", {}, what), element("dd", {}, value));
    const facts = [["result", type], ["its first elements", values], ["its values are", same]];
    this.facts.replaceChildren(...facts.map(fact));
    this.facts.dataset.difference = result.difference;
  }

  // ---- loops

  #loops() {
    this.list = new LoopList({ onEdit: (edit, ref) => this.#edit(edit, ref), onSelect: (ref) => (this.#selected = ref) });
    const button = (text, id, onclick) => element("button", { type: "button", id, onclick }, text);
    this.undo = button("Undo", "undo", () => this.#undo());
    this.redo = button("Redo", "redo", () => this.#redo());
    const plain = button("Plain loops", "plain", () => this.#apply(this.#source, [], { isNew: true }));
    const own = button("Tenon's schedule", "schedule", () => this.#edit("schedule", null));
    this.history = element("code", { id: "edits" });
    const section = element(
      "section",
      { "aria-label": "Loops" },
      element("h2", {}, "Loops"),
      element("div", { class: "tools" }, this.undo, this.redo, plain, own),
      this.list.root,
      element("p", { class: "soft" }, "Edits: ", this.history),
    );
    section.addEventListener("keydown", (event) => {
      if (event.target.matches("input, textarea") || !(event.ctrlKey || event.metaKey)) return;
      const keys = { z: () => (event.shiftKey ? this.#redo() : this.#undo()), y: () => this.#redo() };
      const action = keys[event.key.toLowerCase()];
      if (action === undefined) return;
      event.preventDefault();
      action();
    });
    return section;
  }

  #edit(edit, ref) {
    if (this.#source === null) return;
    this.#undone = [];
    this.#apply(this.#source, [...this.#edits, edit], { ref });
  }
  #undo() {
    if (this.#edits.length === 0) return;
    this.#undone.push(this.#edits.at(-1));
    this.#apply(this.#source, this.#edits.slice(0, -1));
  }
  #redo() {
    if (this.#undone.length === 0) return;
    const edit = this.#undone.pop();
    this.#apply(this.#source, [...this.#edits, edit]);
  }

  // ---- speed

  #speed() {
    this.speed = element("output", { class: "speed", id: "gflops", "aria-label": "Speed" }, "…");
    this.time = element("span", { class: "soft", id: "play-time" });
    this.chart = new Chart("Speed of each version of the loops", ["GFLOP/s of each version"], (value) => value.toFixed(1));
    return element(
      "section",
      { "aria-label": "Speed" },
      element("h2", {}, "Speed"),
      element("p", {}, this.speed, " ", this.time),
      this.chart.root,
    );
  }

  async #measure(round, isFirst = false) {
    const { seconds, gflops } = await this.#bench.ask("measure", MEASURED);
    if (round !== this.#round) return;
    this.speed.textContent = `${gflops.toFixed(gflops < 10 ? 2 : 1)} GFLOP/s`;
    this.speed.dataset.gflops = gflops;
    this.time.textContent = `${timeText(seconds * 1e3)} a run, on one thread`;
    if (isFirst) this.chart.add([gflops]);
  }

  // Measures again and again while somebody looks.
  async #live() {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
      const isSeen = !this.root.hidden && !document.hidden && this.#source !== null;
      if (isSeen && !this.root.hasAttribute("aria-busy")) await this.#measure(this.#round).catch(() => {});
    }
  }

  // ---- memory and code

  #memory() {
    this.picture = new MemoryPicture();
    const options = LIMITS.map((limit) => element("option", { value: limit, selected: limit === 20000 }, limit.toLocaleString("en")));
    this.limit = element("select", { id: "limit" }, ...options);
    this.limit.addEventListener("change", () => this.#source !== null && this.#apply(this.#source, this.#edits));
    return element(
      "section",
      { "aria-label": "Memory" },
      element("h2", {}, "Memory"),
      element("div", { class: "tools" }, element("label", {}, "Accesses from the start ", this.limit)),
      this.picture.root,
    );
  }

  #code() {
    this.codeTitle = element("summary", {}, "WebAssembly");
    this.wasm = element("pre", { tabindex: 0, id: "wasm", "aria-label": "The kernel as WebAssembly" });
    const title = element("h2", {}, "Code");
    return element("section", { "aria-label": "Code" }, title, element("details", { open: true }, this.codeTitle, this.wasm));
  }
}

export async function start(root) {
  new Page(root);
}
