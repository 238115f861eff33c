"""Kernels written in JavaScript, in Node: `make web` builds the compiler, `make test-web` the comparison too."""

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "build/web"

pytestmark = [
    pytest.mark.skipif(not (WEB / "tenon-kernels.wasm").exists(), reason="there is no compiler: say make web"),
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no node"),
]


def node(script, folder, timeout=300):
    """What a module prints that has all of kernels.mjs, as JSON."""
    path = folder / "script.mjs"
    path.write_text(
        f'import * as kernels from "{WEB}/kernels.mjs";\n'
        "const { load, apply, index, where, concat, Expr, LoopTree, Symbol, Tensor, TenonError } = kernels;\n"
        "await load();\n"
        "const print = (value) => console.log(JSON.stringify(value));\n" + script
    )
    done = subprocess.run(["node", path], cwd=ROOT, capture_output=True, text=True, timeout=timeout)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


# ---- against the interpreter ----------------------------------------------------------------------------------------


COMPARES = pytest.mark.skipif(not (WEB / "kernels-test.wasm").exists(), reason="say make test-web")


def compare(calls, folder, flags=()):
    """What the functions of kernels-test.wasm say: nothing where kernels agree with the interpreter."""
    script = f"""
    import {{ readFile }} from "node:fs/promises";
    import {{ start }} from "{WEB}/kernels.mjs";
    const runtime = await start(await readFile("{WEB}/kernels-test.wasm"));
    {calls}"""
    path = folder / "compare.mjs"
    path.write_text(script)
    done = subprocess.run(["node", *flags, path], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.strip()


@COMPARES
@pytest.mark.parametrize(("flags", "count"), [([], 1500), (["--experimental-wasm-relaxed-simd"], 200)])
def test_random_kernels_agree_with_the_interpreter(tmp_path, flags, count):
    """Each seed is a kernel under a random schedule and under the compiler's own. Values are small integers, so that a
    fused product rounds nothing."""
    if flags and subprocess.run(["node", *flags, "-e", "0"], capture_output=True).returncode != 0:
        pytest.skip("this node has relaxed SIMD without a flag, or not at all")
    assert compare(f"console.log(runtime.memory.text(runtime.exports.agree(0, {count})));", tmp_path, flags) == ""


KERNELS = {
    # two writes to one element, one after the other
    "scatter": """
      var i = 10
      var j = 6
      %in: i64[j] = read 0
      %to: i64[i] = read 1
      %at: i64[j] = mul(%in, %in) for j
      %sums: i64[i] = scatter add(%to, %in) at [r] with r = %at in 10 for j unroll
      %out: i64[i] = write 0 (%sums)
    """,
    # narrow integers wrap
    "wrap": """
      var i = 16
      %x: i8[i] = read 0
      %y: u8[i] = read 1
      %a: i8[i] = mul(%x, %x) for i
      %b: i8[i] = mul(%a, %a) for i
      %c: i8[i] = mul(%b, %a) for i
      %d: u8[i] = add(%y, %y) for i
      %e: i32[i] = cast(%c) for i
      %f: i32[i] = cast(%d) for i
      %o: i32[i] = write 0 (%e) for i
      %p: i32[i] = write 1 (%f) for i
    """,
    # also in vectors
    "wrap_vector": """
      var i = 16
      %x: i8[i] = read 0
      %y: u8[i] = read 1
      %a: i8[i] = mul(%x, %x) for i vectorize
      %b: i8[i] = mul(%a, %a) for i vectorize
      %c: i8[i] = mul(%b, %a) for i vectorize
      %d: u8[i] = add(%y, %y) for i vectorize
      %e: i32[i] = cast(%c) for i vectorize
      %f: i32[i] = cast(%d) for i vectorize
      %o: i32[i] = write 0 (%e) for i vectorize
      %p: i32[i] = write 1 (%f) for i vectorize
    """,
    # vectors of an array that lie across each other
    "groups": """
      var i = 8
      var j = 4
      %x: f32[i] = read 0
      %a: f32[i] = neg(%x) for i by 4 unroll, i vectorize
      %b: f32[j] = view %a[j + 2] for j vectorize
      %o: f32[j] = write 0 (%b) for j
    """,
    # sizes that are known when it runs, 0 among them
    "symbols": """
      symbol N in [0, 100]
      var i = N
      var j = N + 3
      %x: f32[i, j] = read 0
      %sum: f32[i] = reduce add(%x) for i, j by 4, j vectorize
      %twice: f32[i, j] = add(%x, %sum) for i, j vectorize
      %o: f32[i, j] = write 0 (%twice) for i, j vectorize
    """,
    # a division by a size of 0 that is not needed
    "division": """
      symbol N in [0, 100]
      var i = 6
      var j = N
      %x: f32[i] = read 0
      %v: f32[i, j] = view %x[(7*i + j) % 6] for i, j
      %w: f32[i, j] = view %x[i] where 12 // (N + 0) - i in 6 else 1.0 for i, j
      %s: f32[i, j] = add(%v, %w)
      %o: f32[i, j] = write 0 (%s)
    """,
    # offsets that are larger than addresses
    "reversed": """
      var i = 4000000
      var k = 4000000
      %x: u8[i] = read 0
      %v: u8[k] = view %x[3999999 - k] for k
      %o: u8[k] = write 0 (%v) for k
    """,
    # vectors of bools
    "masks": """
      var i = 16
      %x: bool[i] = read 0
      %y: f32[i] = read 1
      %zero: f32[] = constant 0
      %a: bool[i] = gt(%y, %zero) for i vectorize
      %b: bool[i] = bitwise_xor(%x, %a) for i vectorize
      %c: f32[i] = where(%b, %y, %zero) for i vectorize
      %d: bool[i] = maximum(%a, %x) for i vectorize
      %n: f32[i] = cast(%b) for i vectorize
      %o: f32[i] = write 0 (%c) for i vectorize
      %p: bool[i] = write 1 (%d) for i vectorize
      %q: f32[i] = write 2 (%n) for i vectorize
    """,
    # lanes that are not neighbours
    "strided": """
      var i = 12
      var j = 3
      %x: f32[i, j] = read 0
      %y: f64[j, i] = read 1
      %a: f32[j, i] = neg(%x) for j, i vectorize
      %b: f64[i, j] = abs(%y) for j, i vectorize
      %o: f32[j, i] = write 0 (%a) for j, i vectorize
      %p: f64[i, j] = write 1 (%b) for j, i vectorize
    """,
    # f16 and bf16
    "halves": """
      var i = 9
      %x: f16[i] = read 0
      %y: bf16[i] = read 1
      %a: f32[i] = cast(%x)
      %b: f32[i] = cast(%y)
      %third: f32[] = constant 0.333333333
      %c: f32[i] = mul(%a, %third)
      %d: f32[i] = mul(%b, %third)
      %e: f16[i] = cast(%c)
      %f: bf16[i] = cast(%d)
      %o: f16[i] = write 0 (%e)
      %p: bf16[i] = write 1 (%f)
    """,
    # running values
    "scan": """
      symbol N in [0, 100]
      var i = N
      var j = 5
      %x: f32[j, i] = read 0
      %s: f32[j, i] = scan add(%x) along j for i, j unroll
      %t: f32[j, i] = scan maximum(%x) along j for j, i
      %o: f32[j, i] = write 0 (%s)
      %p: f32[j, i] = write 1 (%t)
    """,
    # what no instruction does
    "integers": """
      var i = 16
      %x: i32[i] = read 0
      %y: i64[i] = read 1
      %three: i32[] = constant 3
      %big: i64[] = constant -3
      %a: i32[i] = shift_left(%x, %three) for i
      %b: i32[i] = shift_right(%x, %x) for i
      %c: i64[i] = trunc_div(%y, %big) for i
      %d: i32[i] = fmod(%x, %three) for i
      %e: i64[i] = pow(%y, %y) for i
      %f: i32[i] = minimum(%a, %b) for i vectorize
      %g: i32[i] = abs(%d) for i vectorize
      %o: i32[i] = write 0 (%f) for i
      %p: i64[i] = write 1 (%c) for i
      %q: i32[i] = write 2 (%g) for i
      %r: i64[i] = write 3 (%e) for i
    """,
}


@COMPARES
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_agrees_with_the_interpreter(tmp_path, name):
    text = json.dumps(f"tenon loops 1\nkernel {name} {{{KERNELS[name]}}}")
    call = f"runtime.withText({text}, (at) => runtime.memory.text(runtime.exports.agree_on(at)))"
    assert compare(f"console.log({call});", tmp_path) == ""


# ---- numbers --------------------------------------------------------------------------------------------------------


def test_a_product_of_matrices(tmp_path):
    script = """
    const [m, k, n] = ["m", "k", "n"].map((name) => new Symbol(name));
    const numbers = (count) => Float32Array.from({ length: count }, (_, i) => ((i * 37) % 19) / 8 - 1);
    const a = new Tensor(numbers(33 * 70), [33, 70]).to(m, k), b = new Tensor(numbers(70 * 45), [70, 45]).to(k, n);
    const c = a.mul(b).sum(k);
    const { dtype, shape, data } = c.compute();
    print([dtype, shape, [...data], [...(await c.data)].length]);"""
    dtype, shape, data, count = node(script, tmp_path)
    numbers = lambda count: (np.arange(count) * 37 % 19 / 8 - 1).astype("f4")  # noqa: E731
    wanted = numbers(33 * 70).reshape(33, 70) @ numbers(70 * 45).reshape(70, 45)
    assert (dtype, shape, count) == ("f32", [33, 45], 33 * 45)
    np.testing.assert_allclose(data, wanted.ravel(), rtol=1e-5, atol=1e-4)


FUNCTIONS = {
    "exp": np.exp,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "log1p": lambda x: np.log1p(np.abs(x)),
    "sqrt": lambda x: np.sqrt(np.abs(x)),
    "relu": lambda x: np.maximum(x, 0),
    "floor": np.floor,
    "erf": None,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_functions_of_single_elements(tmp_path, name, dtype):
    """For f32 in vectors, with a rest; near 0, far from it, and where there is no number."""
    edges = [0, -0.0, 1e-30, -1e-6, 0.3, 0.66, 1, 10, -10, 88, -88, 90, -105, 1e4, -1e4, 3e38]
    values = np.array([*edges, *np.linspace(-6, 6, 83)], dtype={"f32": "f4", "f64": "f8"}[dtype])
    inner = "x.abs()" if name in ("log1p", "sqrt") else "x"
    script = f"""
    const m = new Symbol("m");
    const x = new Tensor({values.tolist()}, [{len(values)}], "{dtype}").to(m);
    print([...(await {inner}.{name}().data)].map(String));"""
    got = np.array([float(text.replace("Infinity", "inf")) for text in node(script, tmp_path)])
    if name == "erf":
        import torch

        wanted = torch.erf(torch.from_numpy(values)).numpy()
    else:
        with np.errstate(over="ignore"):
            wanted = FUNCTIONS[name](values)
    np.testing.assert_allclose(got, wanted, rtol=4e-7 if dtype == "f32" else 1e-12, atol=1e-38)


@pytest.mark.parametrize("dtype", ["i64", "i32", "i16", "i8", "u8", "bool", "f16", "bf16"])
def test_every_dtype_goes_in_and_out(tmp_path, dtype):
    """Copies of its elements; and as f32 what they are worth."""
    bits = {"f16": [0x3C00, 0xC000], "bf16": [0x3F80, 0xC000], "bool": [1, 0], "u8": [1, 254]}.get(dtype, [1, -2])
    make = "Uint16Array.of" if "f" in dtype else "Array.of"
    script = f"""
    const m = new Symbol("m");
    const x = new Tensor({make}({bits[0]}, {bits[1]}), [2], "{dtype}").to(m);
    const reversed = x.index(m.size.sub(1).sub(m));
    print([reversed.dtype, [...(await reversed.data)].map(Number), [...(await x.cast("f32").data)]]);"""
    worth = {"f16": [1, -2], "bf16": [1, -2]}.get(dtype, bits)
    assert node(script, tmp_path) == [dtype, bits[::-1], worth]


def test_long_sums_are_accurate(tmp_path):
    script = """
    const [m, n] = [new Symbol("m"), new Symbol("n")];
    const x = new Tensor(new Float32Array(1 << 20).fill(0.1), [1 << 18, 4]).to(m, n);
    print([(await x.sum().data)[0], ...(await x.sum(m).data)]);"""
    total = float(np.float32(0.1)) * 2**18
    np.testing.assert_allclose(node(script, tmp_path), [4 * total, *[total] * 4], rtol=1e-7)


def test_views_and_reductions(tmp_path):
    script = """
    const [m, n, o, w, both] = ["m", "n", "o", "w", "both"].map((name) => new Symbol(name));
    const x = new Tensor(Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3]).to(m, n);
    const line = new Tensor([1, 2, 3, 4, 5]).to(n);
    const values = async (tensor) => [...(await tensor.data)].map(Number);
    const pairs = x.flatten([m, n], both).split(both, [o, w], 2);
    print({
      transposed: await values(x.transpose(n, m)),
      sums: await values(x.sum(m)),
      means: await values(x.mean(n)),
      all: [await values(x.max()), await values(x.min()), await values(x.prod())],
      padded: await values(line.pad(n, 1, 2, { fill: -1 })),
      cropped: await values(line.pad(n, -1)),
      windows: await values(line.pad(n, 1).index(o.add(w)).with_sizes([w, 3]).sum(w)),
      outside: await values(line.at([o.mul(2).sub(1)], 9).with_sizes([o, 4])),
      gathered: await values(line.index(new Tensor(Int32Array.of(4, 0), [2]).to(o))),
      flat: await values(x.flatten([n, m], both)),
      split: [pairs.shape, await values(pairs)],
      joined: await values(concat([[line, n], [line, n]], o)),
      chosen: await values(where(x.gt(2), x, 0)),
      counted: await values(index(m.mul(10)).with_sizes([m, 3])),
    });"""
    assert node(script, tmp_path) == {
        "transposed": [1, 4, 2, 5, 3, 6],
        "sums": [5, 7, 9],
        "means": [2, 5],
        "all": [[6], [1], [720]],
        "padded": [-1, 1, 2, 3, 4, 5, -1, -1],
        "cropped": [2, 3, 4],
        "windows": [3, 6, 9, 12, 9],
        "outside": [9, 2, 4, 9],
        "gathered": [5, 1],
        "flat": [1, 4, 2, 5, 3, 6],
        "split": [[3, 2], [1, 2, 3, 4, 5, 6]],
        "joined": [1, 2, 3, 4, 5, 1, 2, 3, 4, 5],
        "chosen": [0, 0, 3, 4, 5, 6],
        "counted": [0, 10, 20],
    }


# ---- loops ----------------------------------------------------------------------------------------------------------

MATMUL = """
const [m, k, n] = ["m", "k", "n"].map((name) => new Symbol(name));
const ramp = (count) => Float32Array.from({ length: count }, (_, i) => (i % 7) - 3);
const c = new Tensor(ramp(20 * 30), [20, 30]).to(m, k).mul(new Tensor(ramp(30 * 24), [30, 24]).to(k, n)).sum(k);
const values = async () => [...(await c.data)];
"""


def test_every_edit_keeps_the_result(tmp_path):
    script = (
        MATMUL
        + """
    const wanted = await values();
    const tree = c.loop_tree, same = {};
    const loop = (tree, name, last = false) => {
      const found = [];
      tree.walk((ref) => tree.is_loop(ref) && tree.loop(ref).var === name && found.push(ref));
      return last ? found.at(-1) : found[0];
    };
    const nodes = [];
    tree.walk((ref) => tree.is_loop(ref) || nodes.push(tree.node(ref)));
    const [product, sum] = ["mul", "reduce"].map((op) => nodes.find(({ text }) => text.includes(op)));
    const edits = {
      split: (t) => t.split(loop(t, "m"), 8),
      merge: (t) => t.split(loop(t, "m"), 8).merge(loop(t, "m")),
      swap: (t) => t.swap(loop(t, "m"), loop(t, "n")),
      annotate: (t) => t.annotate(loop(t, "k"), "vectorize"),
      unroll: (t) => t.split(loop(t, "k"), 5).annotate(loop(t.split(loop(t, "k"), 5), "k", true), "unroll"),
      copy_input: (t) => t.copy_input(product.name, product.inputs[0]),
      split_node: (t) => t.split(loop(t, "k"), 5).split_node(sum.name, loop(t.split(loop(t, "k"), 5), "k")),
      schedule: (t) => t.schedule(),
    };
    for (const [name, edit] of Object.entries(edits)) {
      const edited = edit(tree);
      c.set(LoopTree.parse(edited.serialize()));
      const [got, dump] = [await values(), c.loop_tree.dump()];
      same[name] = got.every((value, i) => value === wanted[i]) && dump === edited.dump();
    }
    c.set(null);
    same.reset = c.loop_tree.dump() === tree.dump();
    print(same);"""
    )
    assert set(node(script, tmp_path).values()) == {True}


def test_a_tree_says_what_it_is(tmp_path):
    script = (
        MATMUL
        + """
    const tree = c.loop_tree.split(0, 8);
    const lines = [];
    tree.walk((ref, depth) => lines.push([ref, depth, tree.parent(ref), tree.is_loop(ref)]));
    print([lines.length === tree.dump().trim().split("\\n").length, lines[0], tree.loop(0), tree.roots,
           tree.children(0), tree.map_ref(0, tree.split(0, 2)), c.code.split("\\n")[0]]);"""
    )
    counts, first, loop, roots, children, mapped, code = node(script, tmp_path)
    assert counts
    assert first == [0, 0, None, True]
    assert loop == {"var": "m", "size": 2, "tail": 4, "step": 8, "annotation": "", "parallel": True}
    assert (roots, children, mapped, code) == ([0], [1], 1, "(module")


def test_mistakes_are_errors_with_the_text_of_the_compiler(tmp_path):
    script = (
        MATMUL
        + """
    const said = {};
    const attempt = async (name, body) => {
      try { await body(); said[name] = null; } catch (error) { said[name] = [error.name, error.status, error.message]; }
    };
    await attempt("edit", () => c.loop_tree.annotate(0, "sideways"));
    await attempt("loop", () => c.loop_tree.split(99, 2));
    await attempt("symbol", () => c.sum(new Symbol("other")));
    await attempt("name", () => new Symbol("a b"));
    await attempt("op", () => apply("tahn", c));
    await attempt("range", () => new Tensor([1, 2]).to(m).index(new Tensor(Int32Array.of(7), [1]).to(n)).data);
    const one = (number) => new Tensor(Int32Array.of(number), [1]).to(m);
    await attempt("zero", () => one(1).fmod(one(0)).data);
    await attempt("unbound", () => new Tensor([m]).exp().data);
    await attempt("shape", () => new Tensor(new Float32Array(3), [2]));
    await attempt("operand", () => c.add("1"));
    await attempt("foreign", () => c.set(new Tensor([1, 2]).to(m).exp().loop_tree));
    said.alive = (await values()).length;
    print(said);"""
    )
    said = node(script, tmp_path)
    assert said.pop("alive") == 20 * 24
    texts = {
        "edit": "expected parallel, block, thread, vectorize, unroll",
        "loop": "there is no line 99",
        "symbol": "other",
        "name": "a b",
        "op": "did you mean",
        "range": "index 7 is out of range for a size of 2",
        "zero": "integer division of 1 by zero",
        "unbound": "bind",
        "shape": "has 3 elements, and shape [2] has 2",
        "operand": "1 is no operand",
        "foreign": "the schedule is of another kernel",
    }
    for name, text in texts.items():
        assert said[name] is not None, name
        kind, status, message = said[name]
        assert (kind, status) == ("TenonError", "invalid argument"), said[name]
        assert text in message, said[name]


def test_a_thousand_runs_keep_the_memory(tmp_path):
    script = (
        MATMUL
        + """
    const bytes = () => kernels.memoryBytes();
    for (let i = 0; i < 50; ++i) await c.data;
    const before = bytes();
    for (let i = 0; i < 1000; ++i) await c.data;
    print(bytes() - before);"""
    )
    assert node(script, tmp_path) == 0


def test_the_compiler_is_loaded_once(tmp_path):
    script = """
    await Promise.all([load(), load()]);
    const before = new Tensor([1, 2]);
    await load();
    const other = await import("KERNELS?fresh"), said = [];
    try { new other.Symbol("m"); } catch (error) { said.push(error.message); }
    try { await other.load("missing.wasm"); } catch (error) { said.push("not loaded"); }
    await other.load();
    print([...said, new other.Symbol("m").name, [...(await before.sum().data)]]);"""
    said = node(script.replace("KERNELS", f"{WEB}/kernels.mjs"), tmp_path)
    assert said == ["the compiler is not there yet: await load() first", "not loaded", "m", [3]]


# ---- the package ----------------------------------------------------------------------------------------------------


def test_the_types_are_those_of_the_module(tmp_path):
    types = (WEB / "kernels.d.mts").read_text()
    names = {"Tensor", "Expr", "LoopTree", "Symbol"}
    script = f"""
    const members = (name) => Object.getOwnPropertyNames(kernels[name].prototype);
    const names = {json.dumps(sorted(names))};
    print([Object.keys(kernels), Object.fromEntries(names.map((name) => [name, members(name)]))]);"""
    exported, members = node(script, tmp_path)
    declared = re.findall(r"^export (?:class|function) (\w+)", types, re.MULTILINE)
    own = {"start", "environmentOf"}  # for tests and for kernel_server.mjs
    assert {*declared, "TenonError"} == {*exported} - own
    for name in names:
        body = types[types.index(f"export class {name}") :].split("\n}\n")[0]
        methods = set(re.findall(r"^  (?:static |readonly |get |set )*(\w+)\??[(:]", body, re.MULTILINE))
        assert methods - {"text", "name", "parse"} <= set(members[name]), name


TYPED = """
import { Expr, LoopTree, Symbol, Tensor, load, where } from "tenon/kernels";

await load(new URL("tenon-kernels.wasm", "https://example.org"));
const [m, k]: Symbol[] = ["m", "k"].map((name) => new Symbol(name));
const x: Tensor = new Tensor(new Float32Array(6), [2, 3]).to(m, k);
const half: Expr = m.size.div(2).add(k).min(7);
const y = where(x.gt(0), x.exp().add(1), 0).sum(k).index(half);
const values: Float32Array = (await y.data) as Float32Array;
const tree: LoopTree = y.loop_tree.split(0, 4).annotate(1, "vectorize");
y.set(tree).set(null);
y.loop_tree = tree;
tree.walk((ref, depth) => console.log(depth, tree.is_loop(ref) ? tree.loop(ref).size : tree.node(ref).text));
console.log(values[0], y.benchmark().gflops, x.pad(m, 1, 2, { fill: -1 }).shape);
"""


def test_a_user_of_the_types_compiles(tmp_path):
    if shutil.which("tsc") is None:
        pytest.skip("there is no tsc: install node-typescript")
    package = tmp_path / "node_modules/tenon"
    package.mkdir(parents=True)
    for name in ("package.json", "kernels.d.mts", "tenon.d.mts"):
        shutil.copy(WEB / name, package)
    flags = ["--noEmit", "--strict", "--target", "es2022", "--module", "node16", "--moduleResolution", "node16"]
    command = ["tsc", *flags, "--lib", "es2022,dom", "user.mts"]
    for source, compiles in ((TYPED, True), (TYPED.replace("split(0, 4)", "split('0')"), False)):
        (tmp_path / "user.mts").write_text(source)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert (done.returncode == 0) == compiles, done.stdout


def test_the_compiler_is_small():
    names = ["tenon.wasm", "tenon.mjs", "runtime.mjs", "kernels.mjs", "tenon-kernels.wasm"]
    size = sum(len(gzip.compress((WEB / name).read_bytes())) for name in names)
    assert size < 600_000, f"{size} bytes, compressed"


def test_the_snippets_of_the_manual_run(tmp_path):
    """Blocks build on each other: they are one script."""
    blocks = re.findall(r"^```js\n(.*?)^```$", (ROOT / "docs/web-kernels.md").read_text(), re.MULTILINE | re.DOTALL)
    script = tmp_path / "manual.mjs"
    script.write_text("\n".join(blocks).replace('"./build/web/', f'"{WEB}/'))
    done = subprocess.run(["node", script], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "[ 64, 48 ] 32" in done.stdout
    assert "true invalid argument" in done.stdout
