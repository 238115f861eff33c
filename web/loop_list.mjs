// The loops of a kernel as a tree that is edited by keys, buttons, or by dragging one loop onto another.
import { element } from "./explorer.mjs";

const HELP =
  "Arrows move. S splits, M merges, O and I swap with the loop outside and inside, V vectorizes, U unrolls, N takes " +
  "that off, F joins with the loop before, C copies what a node reads. Or drag a loop onto another one.";

export class LoopList {
  #refs = [];
  #selected = 0;
  #dragged = null; // the ref of a loop that the mouse holds

  /** `onEdit(edit, ref)`: an edit as text, of the selected ref. `onSelect(ref)`. */
  constructor({ onEdit, onSelect }) {
    Object.assign(this, { onEdit, onSelect });
    this.tree = element("ul", { class: "plain loops", role: "tree", id: "loops", "aria-label": `Loops. ${HELP}` });
    this.size = element("input", { type: "number", min: 1, value: 8, id: "split-size" });
    this.size.addEventListener("keydown", ({ key }) => key === "Enter" && this.#do("s"));
    this.typed = element("input", { type: "text", id: "edit", placeholder: "swap 0 1", autocapitalize: "off" });
    this.typed.addEventListener("keydown", ({ key }) => key === "Enter" && this.#typed());
    this.buttons = ACTIONS.map(({ key, name }) => {
      const made = element("button", { type: "button", "data-key": key, onclick: () => this.#do(key) }, name);
      made.setAttribute("aria-keyshortcuts", key.toUpperCase());
      return made;
    });
    this.root = element(
      "div",
      {},
      this.tree,
      element("div", { class: "tools small" }, ...this.buttons, element("label", {}, "Split by ", this.size)),
      element("div", { class: "tools small" }, element("label", {}, "Edit as text ", this.typed)),
      element("p", { class: "soft" }, HELP),
    );
    this.#listen();
  }

  /** `refs` as play_worker.mjs gives them. */
  show(refs, selected) {
    const hadFocus = this.tree.contains(document.activeElement);
    this.#refs = refs;
    this.tree.replaceChildren(...refs.map((each, ref) => this.#item(each, ref)));
    this.#select(selected, hadFocus);
  }

  #item({ text, depth, loop }, ref) {
    const mark = loop?.annotation ? element("span", { class: "mark" }, loop.annotation) : null;
    const plain = loop?.annotation ? text.slice(0, text.length - loop.annotation.length).trimEnd() : text;
    return element(
      "li",
      {
        role: "treeitem",
        "data-ref": ref,
        "aria-level": depth + 1,
        "aria-expanded": loop === null ? undefined : "true",
        class: loop === null ? "node" : "loop",
        style: `--depth: ${depth}`,
        tabindex: -1,
      },
      element("span", { class: "line", "aria-hidden": true }, `${ref}`),
      element("code", {}, plain),
      mark,
    );
  }

  #select(ref, isFocused = true) {
    this.#selected = ref;
    for (const [i, item] of [...this.tree.children].entries()) {
      item.setAttribute("aria-selected", i === ref);
      item.tabIndex = i === ref ? 0 : -1;
    }
    if (isFocused) this.tree.children[ref]?.focus();
    this.buttons.forEach((button, i) => (button.disabled = ACTIONS[i].edit(this) === null));
    this.onSelect(ref);
  }

  // ---- edits

  get ref() {
    return this.#selected;
  }
  get selected() {
    return this.#refs[this.#selected] ?? null;
  }
  at(ref) {
    return this.#refs[ref];
  }

  #do(key) {
    const edit = ACTIONS.find((action) => action.key === key)?.edit(this);
    if (edit) this.onEdit(edit, this.#selected);
  }

  #typed() {
    if (this.typed.value.trim() === "") return;
    this.onEdit(this.typed.value.trim(), this.#selected);
    this.typed.value = "";
  }

  // ---- keys and the mouse

  #listen() {
    this.tree.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const last = this.#refs.length - 1;
      const moves = {
        ArrowDown: Math.min(this.#selected + 1, last),
        ArrowUp: Math.max(this.#selected - 1, 0),
        ArrowLeft: this.selected?.parent ?? this.#selected,
        ArrowRight: this.selected?.children[0] ?? this.#selected,
        Home: 0,
        End: last,
      };
      const key = event.key.toLowerCase();
      if (moves[event.key] !== undefined) this.#select(moves[event.key]);
      else if (ACTIONS.some((action) => action.key === key)) this.#do(key);
      else return;
      event.preventDefault();
    });
    const refAt = ({ clientX, clientY }) => {
      const item = document.elementFromPoint(clientX, clientY)?.closest("#loops [data-ref]");
      return item ? Number(item.dataset.ref) : null;
    };
    this.tree.addEventListener("pointerdown", (event) => {
      const ref = refAt(event);
      if (ref === null) return;
      this.#select(ref);
      if (event.pointerType === "mouse" && this.#refs[ref].loop !== null) this.#dragged = ref;
    });
    const target = (event) => {
      const ref = this.#dragged === null ? null : refAt(event);
      return ref !== null && ref !== this.#dragged && this.#refs[ref].loop !== null ? ref : null;
    };
    addEventListener("pointermove", (event) => {
      if (this.#dragged === null) return;
      const over = target(event);
      [...this.tree.children].forEach((item, ref) => item.classList.toggle("over", ref === over));
    });
    addEventListener("pointerup", (event) => {
      const over = target(event);
      if (over !== null) this.onEdit(`swap ${Math.min(over, this.#dragged)} ${Math.max(over, this.#dragged)}`, this.#dragged);
      this.#dragged = null;
      [...this.tree.children].forEach((item) => item.classList.remove("over"));
    });
  }
}

const loopEdit = (text) => (list) => (list.selected?.loop ? text(list) : null);
const annotated = (mark) => loopEdit((list) => `annotate ${list.ref} ${mark}`);
const inner = (list) => list.selected.children.find((child) => list.at(child).loop !== null);

// What keys and buttons do: `edit(list)` is the edit of the selected ref as text, or null where there is none.
const ACTIONS = [
  { key: "s", name: "Split", edit: loopEdit((list) => `split ${list.ref} ${list.size.value}`) },
  { key: "m", name: "Merge", edit: loopEdit((list) => `merge ${list.ref}`) },
  {
    key: "o",
    name: "Swap with outer",
    edit: loopEdit((list) => (list.selected.parent === null ? null : `swap ${list.selected.parent} ${list.ref}`)),
  },
  {
    key: "i",
    name: "Swap with inner",
    edit: loopEdit((list) => (inner(list) === undefined ? null : `swap ${list.ref} ${inner(list)}`)),
  },
  { key: "v", name: "Vectorize", edit: annotated("vectorize") },
  { key: "u", name: "Unroll", edit: annotated("unroll") },
  { key: "n", name: "No mark", edit: annotated("none") },
  { key: "f", name: "Fuse", edit: loopEdit((list) => `fuse ${list.ref}`) },
  {
    key: "c",
    name: "Copy input",
    edit: (list) => (list.selected?.node?.inputs.length ? `copy %${list.selected.node.name} %${list.selected.node.inputs[0]}` : null),
  },
  { key: "d", name: "Delete copy", edit: (list) => (list.selected?.node ? `delete %${list.selected.node.name}` : null) },
];
