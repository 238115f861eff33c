// The page that shows what is in a file: one that it comes with, a .tenon file, or a page of `tenon inspect --html`.
import { bytesText, element, showReport } from "./explorer.mjs";
import { modelChoice, sizeFields } from "./fields.mjs";
import { fileOf, inspector, models, randomInputs } from "./session.mjs";

const MOST_RUNS = 50; // of a profile
const MOST_TIME = 1500; // milliseconds of all of them

// The time of each task, the mean of runs: clocks of browsers are coarse.
async function profile(program, inputs) {
  await program.run(inputs, { telemetry: true }); // warms up
  const runs = [];
  for (const began = performance.now(); runs.length < MOST_RUNS && performance.now() - began < MOST_TIME; ) {
    await program.run(inputs, { telemetry: true });
    runs.push(await program.events());
  }
  let at = 0;
  const tasks = runs[0].map(({ bytes, flops }, task) => {
    const start = at;
    at += runs.reduce((sum, events) => sum + events[task].end - events[task].start, 0) / runs.length;
    return { task, start, end: at, bytes, flops };
  });
  return { note: `Means of ${runs.length} runs.`, tasks };
}

function factsOf({ sections }) {
  const bytes = (kind) => sections.filter((section) => section.kind === kind).reduce((sum, { size }) => sum + size, 0);
  const codeNames = sections.filter(({ kind }) => kind === "native").map(({ name }) => name.replace(/^.*:/, ""));
  const codes = [...new Set(codeNames)]; // the programs of a file have the same
  const facts = [["weights", bytesText(bytes("weights"))]];
  if (codes.length > 0) facts.push(["code for", codes.join(", ")]);
  return facts;
}

class Page {
  #program = null; // the file's first
  #opening = 0;

  constructor(root, listed) {
    this.choice = modelChoice(listed, {
      accept: ".tenon,.html,.json",
      onModel: (model) => (this.choice.press(model.name), this.#try(() => this.#open(fileOf(model.name), model.title))),
      onFile: (file) => (this.choice.press(null), this.#try(() => this.#openFile(file))),
    });
    this.title = element("h2", { id: "explored" });
    this.controls = element("div");
    this.view = element("div", { id: "report" });
    root.append(
      element("h1", {}, "Explore a program"),
      element(
        "p",
        { class: "soft" },
        "Tasks of a compiled model, loops of its kernels, memory over time. Pages of tenon inspect --html open, too."
      ),
      this.choice.root,
      this.title,
      this.controls,
      this.view,
    );
  }

  async #try(action) {
    this.choice.fail(null);
    await action().catch((error) => this.choice.fail(error));
  }

  async #openFile(file) {
    if (/\.(html|json)$/.test(file.name)) return this.#openReport(await file.text(), file.name);
    await this.#open(file, file.name);
  }

  #openReport(text, name) {
    const page = new DOMParser().parseFromString(text, "text/html");
    const data = page.getElementById("data")?.textContent ?? text;
    let report;
    try {
      report = JSON.parse(data);
    } catch {
      throw new Error(`${name} has no report: neither JSON nor a page of tenon inspect --html`);
    }
    if (!report?.description?.tasks) throw new Error(`${name} has no description of a program`);
    this.title.textContent = name;
    this.controls.replaceChildren();
    showReport(this.view, report);
  }

  async #open(source, title) {
    const number = ++this.#opening;
    await this.#program?.close();
    this.#program = null;
    const program = await (await inspector()).openFrom(source);
    if (number !== this.#opening) return program.close();
    this.#program = program;
    this.title.textContent = title;
    await this.#show(program, program.entries[0]);
  }

  async #show(program, entry) {
    const fields = sizeFields(program.symbols);
    const entries =
      element("select", {}, ...program.entries.map((name) => element("option", { selected: name === entry }, name)));
    const change = async () => this.#show(await this.#program.entry(entries.value), entries.value);
    entries.addEventListener("change", () => this.#try(change));
    const measure = async () => {
      const times = await profile(program, randomInputs(program, fields.sizes()));
      await this.#report(program, times);
    };
    const click = () => this.#try(measure);
    const start = element("button", { type: "button", class: "main", id: "measure", onclick: click }, "Measure");
    const choice = program.entries.length > 1 ? element("label", {}, "Program ", entries) : null;
    this.controls.replaceChildren(
      element(
        "div", { class: "tools" }, choice, start, element("span", { class: "soft" }, "runs it with random inputs")
      ),
      program.symbols.length > 0 ? fields.root : ""
    );
    await this.#report(program, null);
  }

  async #report(program, times) {
    const description = await program.describe();
    showReport(this.view, { description, profile: times, facts: factsOf(description), text: "" });
  }
}

export async function start(root) {
  new Page(root, await models());
}
