// What the playground runs in a worker, so that a kernel that never ends is ended: a kernel's text, edits of its loops,
// and measurements. A request is {number, method, args}, its answer {number, result} or {number, error}.
import * as kernels from "./kernels.mjs";

const { LoopTree, Tensor } = kernels;
const AsyncFunction = (async () => {}).constructor;

/** A Tensor of numbers from -1 to 1 that are the same each time. */
function random(...shape) {
  const count = shape.reduce((product, size) => product * size, 1);
  let state = 12345;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  };
  return new Tensor(Float32Array.from({ length: count }, next), shape);
}

const { load, memoryBytes, start, serialize, deserialize, ...names } = kernels;
const scope = { ...names, random };

// The last kernel: {source, tensor, plain, wanted}. `wanted` are the results of plain loops.
let kernel = null;

async function open(source) {
  if (kernel?.source === source) return kernel;
  kernel = null;
  const tensor = await new AsyncFunction(...Object.keys(scope), source)(...Object.values(scope));
  if (!(tensor instanceof Tensor)) throw new Error("the kernel must return a Tensor");
  const plain = tensor.loop_tree;
  const wanted = tensor.set(plain).compute();
  return (kernel = { source, tensor, plain, wanted });
}

// The tree after an edit, and where the loop or node `ref` is then.
function edited(tree, edit, ref) {
  const next = edit === "schedule" ? tree.schedule() : tree.edit(edit);
  return { tree: next, ref: ref === null ? null : tree.map_ref(ref, next) };
}

// The largest difference of results, beside the largest of them.
function difference(wanted, got) {
  let [most, largest] = [0, 0];
  for (let i = 0; i < wanted.length; ++i) {
    const [a, b] = [Number(wanted[i]), Number(got[i])];
    if (a === b || (Number.isNaN(a) && Number.isNaN(b))) continue;
    most = Number.isFinite(a - b) ? Math.max(most, Math.abs(a - b)) : Infinity;
  }
  for (const value of wanted) if (Number.isFinite(Number(value))) largest = Math.max(largest, Math.abs(Number(value)));
  return largest === 0 ? most : most / largest;
}

// What there is to see of a tree, which the kernel runs from now on.
function view(tree, { tensor, wanted }, limit) {
  const { dtype, shape, data } = tensor.set(tree).compute();
  const lines = tree.dump().trimEnd().split("\n");
  const refs = lines.map((line, ref) => ({
    text: line.trim(),
    depth: tree.depth(ref),
    parent: tree.parent(ref),
    children: tree.children(ref),
    loop: tree.is_loop(ref) ? tree.loop(ref) : null,
    node: tree.is_loop(ref) ? null : tree.node(ref),
  }));
  return {
    refs,
    code: tensor.code,
    accesses: tree.accesses(limit),
    result: { dtype, shape, first: [...data.slice(0, 8)].map(Number), difference: difference(wanted.data, data) },
  };
}

const methods = {
  /**
   * The kernel under edits of its plain loops. The last edit may be wrong: then `refused` is why, and the rest is of the
   * tree before it. `ref` is a ref before the last edit; the answer has the one after it.
   */
  async show({ source, edits, ref, limit }) {
    const opened = await open(source);
    let at = { tree: opened.plain, ref: null };
    let refused = null;
    for (const [i, edit] of edits.entries()) {
      try {
        at = edited(at.tree, edit, i === edits.length - 1 ? ref : null);
      } catch (error) {
        if (i < edits.length - 1) throw error;
        [refused, at.ref] = [error.message, ref];
      }
    }
    return { ...view(at.tree, opened, limit), ref: at.ref, refused };
  },

  measure: (seconds) => kernel.tensor.benchmark(seconds),
};

const loading = kernels.load();
loading.catch(() => {}); // the first answer says so
onmessage = async ({ data: { number, method, args } }) => {
  try {
    await loading;
    postMessage({ number, result: await methods[method](...args) });
  } catch (error) {
    postMessage({ number, error: error.name === "TenonError" ? error.message : `${error}` });
  }
};
