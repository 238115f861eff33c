// A picture of the accesses of a kernel to its memory: for each array a strip, time from left to right, the array's
// elements from top to bottom.
import { element } from "./explorer.mjs";

const HEIGHT = 96;
const ROLES = ["input", "output", "scratch"];

// "by 1 element 94%": the commonest step from an access to the next one of the same array.
function strideText(positions) {
  const counts = new Map();
  for (let i = 1; i < positions.length; ++i) {
    const step = positions[i] - positions[i - 1];
    counts.set(step, (counts.get(step) ?? 0) + 1);
  }
  const [step, count] = [...counts].reduce((best, each) => (each[1] > best[1] ? each : best), [0, 0]);
  return count === 0 ? "" : `, ${Math.round((100 * count) / (positions.length - 1))}% of steps by ${step}`;
}

const kindText = (reads, writes) =>
  [reads > 0 && `${reads} reads`, writes > 0 && `${writes} writes`].filter(Boolean).join(", ") || "not touched yet";

export class MemoryPicture {
  #strips = []; // {canvas, steps, elements}
  #count = 1;

  constructor() {
    this.list = element("div", { class: "strips", id: "strips" });
    const key = (name, colour) =>
      element("span", {}, element("span", { class: "bar", style: `width: 14px; background: var(--${colour})` }), name);
    const about = "Time goes from left to right, positions in the array from top to bottom.";
    this.note = element("span", {});
    this.root = element(
      "div",
      {},
      element("div", { class: "tools soft" }, key("read", "c0"), key("write", "c1"), about, this.note),
      this.list,
    );
    new ResizeObserver(() => this.#draw()).observe(this.list);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
  }

  /** As LoopTree.accesses() gives them. */
  show({ arrays, steps, isWhole }) {
    this.#count = Math.max(steps.length, 1);
    const order = [...arrays.keys()].sort((a, b) => ROLES.indexOf(arrays[a].role) - ROLES.indexOf(arrays[b].role));
    this.#strips = order.map((array) => {
      const { name, role, elements } = arrays[array];
      const own = steps.map((step, at) => ({ ...step, at })).filter((step) => step.array === array);
      const writes = own.filter((step) => step.writes).length;
      const about = kindText(own.length - writes, writes) + strideText(own.map(({ position }) => position));
      const canvas = element("canvas", { role: "img", "aria-label": `Accesses to ${role} ${name}: ${about}` });
      const title = element("figcaption", {}, `${role} `, element("code", {}, name), `, ${elements} elements: ${about}`);
      return { canvas, steps: own, elements, root: element("figure", {}, title, canvas) };
    });
    this.note.textContent = isWhole ? `All ${steps.length} accesses.` : `The first ${steps.length} accesses.`;
    this.list.replaceChildren(...this.#strips.map(({ root }) => root));
    this.#draw();
  }

  #draw() {
    const width = this.list.clientWidth;
    if (width === 0) return;
    for (const { canvas, steps, elements } of this.#strips) {
      Object.assign(canvas, { width: width * devicePixelRatio, height: HEIGHT * devicePixelRatio });
      canvas.style.height = `${HEIGHT}px`;
      const context = canvas.getContext("2d");
      const style = getComputedStyle(canvas);
      const colours = [style.getPropertyValue("--c0"), style.getPropertyValue("--c1")];
      context.scale(devicePixelRatio, devicePixelRatio);
      const wide = Math.max(width / this.#count, 1.2);
      const high = Math.max(HEIGHT / elements, 1.2);
      for (const { at, position, writes } of steps) {
        context.fillStyle = colours[writes ? 1 : 0];
        context.fillRect((at / this.#count) * (width - wide), (position / elements) * (HEIGHT - high), wide, high);
      }
    }
  }
}
