"""Lazy tensors, kernels, trees, edits and backends from Python. Exact results are in test_loops_cases.py."""

import gc
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tenon
import tenon.loops as tl
import torch

ROOT = Path(__file__).parents[2]

MATMUL = """\
tenon loops 1
kernel matmul {
  var m = 16
  var k = 16
  var n = N
  %a: f32[m, k] = read 0
  %b: f32[k, n] = read 1
  %p: f32[m, n, k] = mul(%a, %b) for m, n, k by 10, k
  %c: f32[m, n] = reduce add(%p) for m, n, k by 10, k
  %out: f32[m, n] = write 0 (%c) for m, n
}
"""


@pytest.fixture
def s():
    return tl.SymbolGenerator()


@pytest.fixture
def matmul():
    return tl.LoopTree(tl.IR.parse(MATMUL))


def vector(*values, dtype=np.float32):
    return np.array(values, dtype=dtype)


NAME_OF_A_KERNEL = """
import tenon.loops as tl
s = tl.SymbolGenerator()
unused = [tl.Symbol("x") for _ in range(100)]
print((tl.Tensor(s.first, s.second) * 2.5).sum(s.second).ir.name)
"""


# ---- symbols and tensors ---------------------------------------------------------------------------------------------


def test_a_generator_gives_one_symbol_for_a_name(s):
    assert s.m is s.m
    assert s.m == s.m
    assert s.m != s.k
    assert tl.Symbol("m") != tl.Symbol("m")
    assert len({s.m, s.m, tl.SymbolGenerator().m}) == 2
    assert not hasattr(s, "__wrapped__")


def test_symbols_make_expressions(s):
    assert isinstance(2 * s.o + s.k - 1, tenon.Expr)
    assert s.o + s.k == s.k + s.o
    assert (s.o - s.o) == 0
    assert str(-s.o // 2) != str(s.o // 2)
    assert (5 - s.o).symbols == (s.o + 1).symbols


def test_tensors_of_arrays_of_any_kind(s):
    for array in (vector(1, 2), torch.tensor([1.0, 2.0]), tenon.Tensor(vector(1, 2))):
        x = tl.Tensor(array, s.m)
        assert (x.dtype, x.shape, x.symbols) == ("f32", (2,), (s.m,))
        np.testing.assert_array_equal((x + 1).numpy(), [2, 3])
    assert [symbol.name for symbol in tl.Tensor(np.ones((2, 3))).symbols] == ["d0", "d1"]
    assert tl.Tensor(3.0).shape == ()
    assert tl.Tensor(3.0).dtype == "f32"
    for number, dtype in [
        (np.float64(3), "f64"),
        (np.float32(3), "f32"),
        (np.int32(3), "i32"),
        (np.bool_(True), "bool"),
    ]:
        assert tl.Tensor(number).dtype == dtype
        assert tenon.Tensor(number).dtype == dtype
    assert tl.Tensor(np.float64(3), dtype="f32").dtype == "f32"
    assert tl.Tensor(np.float64(0.1)).numpy() == 0.1
    assert tl.Tensor(s.m, s.k, dtype="i32").dtype == "i32"
    assert tl.Tensor([s.m, s.k]).symbols == (s.m, s.k)


def test_results_go_to_numpy_and_torch(s):
    x = tl.Tensor(vector(1, 2), s.m) * 2
    assert isinstance(x.data, tenon.Tensor)
    np.testing.assert_array_equal(np.asarray(x), [2, 4])
    np.testing.assert_array_equal(np.asarray(x, dtype=np.float64), [2, 4])
    assert torch.equal(torch.from_dlpack(x), torch.tensor([2.0, 4.0]))
    half = tl.Tensor(torch.ones(2, dtype=torch.bfloat16), s.m) + 1
    assert torch.equal(torch.from_dlpack(half), torch.full((2,), 2, dtype=torch.bfloat16))


def test_data_is_not_copied(s):
    array = vector(1, 2)
    x = tl.Tensor(array).to(s.m) + 1
    array[0] = 5
    np.testing.assert_array_equal(x.numpy(), [6, 3])


def test_operators_agree_with_torch(s):
    a, b = torch.tensor([[5, 3, 2], [7, -4, 9]]), torch.tensor([[2, 3, 3], [4, 3, 1]])
    x, y = tl.Tensor(a, s.m, s.n), tl.Tensor(b, s.m, s.n)
    operators = [
        lambda p, q: p + q,
        lambda p, q: p - 2 * q,
        lambda p, q: 3 - p * q,
        lambda p, q: p / q,
        lambda p, q: p // q,
        lambda p, q: p % q,
        lambda p, q: p**2,
        lambda p, q: 1.5 + p,
        lambda p, q: p & q,
        lambda p, q: p | 1,
        lambda p, q: p ^ q,
        lambda p, q: ~p,
        lambda p, q: -p,
        lambda p, q: abs(p),
        lambda p, q: p < q,
        lambda p, q: p <= q,
        lambda p, q: p > 3,
        lambda p, q: p >= q,
        lambda p, q: p == q,
        lambda p, q: p != q,
    ]
    for operator in operators:
        actual, expected = torch.from_dlpack(operator(x, y)), operator(a, b)
        torch.testing.assert_close(actual, expected)


def test_reductions_agree_with_torch(s):
    a = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    x = tl.Tensor(a).to(s.m, s.n)
    assert torch.equal(torch.from_dlpack(x.sum(s.n)), a.sum(1))
    assert torch.equal(torch.from_dlpack(x.prod([s.m])), a.prod(0))
    assert torch.equal(torch.from_dlpack(x.max(s.m)), a.amax(0))
    assert torch.equal(torch.from_dlpack(x.min(s.m, s.n)), a.min())
    assert x.sum().shape == ()
    assert torch.equal(torch.from_dlpack(x.mean(s.n)), a.mean(1))
    assert torch.equal(torch.from_dlpack(x.mean()), a.mean())
    assert x.cast("i32").mean(s.m, s.n).numpy() == np.float32(3.5)


def test_functions_by_name(s):
    x = tl.Tensor(vector(0.25, 0.5), s.m)
    for name in ("exp", "log", "sqrt", "tanh", "abs"):
        expected = getattr(torch, name)(torch.tensor([0.25, 0.5]))
        torch.testing.assert_close(torch.from_dlpack(getattr(tl, name)(x)), expected)
        torch.testing.assert_close(torch.from_dlpack(tl.apply(name, x)), expected)
    np.testing.assert_array_equal(tl.maximum(x, 0.3).numpy(), vector(0.3, 0.5))
    np.testing.assert_array_equal(tl.minimum(x, 0.3).numpy(), vector(0.25, 0.3))
    np.testing.assert_array_equal(tl.where(x > 0.3, x, -1).numpy(), vector(-1, 0.5))
    gelu = torch.nn.functional.gelu(torch.tensor([0.25, 0.5]), approximate="tanh")
    torch.testing.assert_close(torch.from_dlpack(tl.apply("gelu", x, approximate="tanh")), gelu)
    np.testing.assert_array_equal(x.cast("f64").numpy(), np.array([0.25, 0.5]))


def test_sizes_may_come_with_the_data(s):
    tl.clear_cache()
    a, b = tl.Tensor(s.m, s.k), tl.Tensor(s.k, s.n)
    c = (a * b).sum(s.k)
    assert [str(size) for size in c.shape] == [str(s.m.size), str(s.n.size)]
    assert "for m in m_size" in str(c.loop_tree)
    rng = np.random.default_rng(0)
    for m, k, n in ((2, 3, 4), (5, 1, 2)):
        x, y = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
        np.testing.assert_allclose(np.asarray(c.run({a: x, b: y})), x @ y, rtol=1e-6)
    assert tl.cache_size() == 1
    with pytest.raises(tenon.Error, match="has no data: bind it"):
        c.numpy()


def test_mistakes_are_errors_with_the_line(s):
    x = tl.Tensor(vector(1, 2, 3), s.m)
    with pytest.raises(tenon.Error, match=r"the index m \+ 1 of m reaches 3") as caught:
        x[s.m + 1]
    assert caught.value.file.endswith("test_loops.py")
    with pytest.raises(tenon.Error, match="slices are not supported"):
        x[1:2]
    with pytest.raises(tenon.Error, match="has no truth value"):
        bool(x)
    with pytest.raises(tenon.Error, match=r"a dimension is a tenon\.loops\.Symbol, got a str"):
        x.sum("m")
    with pytest.raises(tenon.Error, match=r"a dimension is a tenon\.loops\.Symbol, got an int"):
        x.sum(1)
    for values in ([1.0, 2.0], (1, 2), [[1.0], [2.0]]):
        with pytest.raises(tenon.Error, match=r"the data is a (list|tuple): give a NumPy array or a torch tensor"):
            tl.Tensor(values, s.m)
    with pytest.raises(tenon.Error, match=r"an index must be an integer of 64 bits or a tenon\.Expr, got a float"):
        x[0.5]
    with pytest.raises(tenon.Error, match=r"the feed f32\[k, n\] is no input of the expression f32\[m\]"):
        (x + 1).run({tl.Tensor(s.k, s.n): np.ones((1, 1), np.float32)})
    with pytest.raises(tenon.Error, match="there is no backend 'interpretre'; did you mean 'interpreter'"):
        x.backend("interpretre")
    with pytest.raises(tenon.Error, match="did you mean 'exp'"):
        tl.apply("expp", x)
    with pytest.raises(tenon.Error, match="gelu has no attribute slope"):
        tl.apply("gelu", x, slope=1)
    with pytest.raises(tenon.Error, match="softmax is not a function of single elements"):
        tl.apply("softmax", x, dim=0)
    with pytest.raises(TypeError):
        x + "1"
    with pytest.raises(TypeError):
        iter(x)


# ---- kernels and trees -----------------------------------------------------------------------------------------------


def test_a_kernel_is_its_text():
    ir = tl.IR.parse(MATMUL)
    assert str(ir) == MATMUL
    assert tl.IR.parse(str(ir)) == ir
    assert ir.vars == {"m": 16, "k": 16, "n": tenon.Expr("N")}
    assert ir.size_symbols == ["N"]
    assert [node.name for node in ir.nodes] == ["a", "b", "p", "c", "out"]
    assert [node.kind for node in ir.nodes] == ["read", "read", "compute", "reduce", "write"]
    fold = ir.node("c")
    assert (fold.op, fold.dtype, fold.vars, fold.folded) == ("add", "f32", ["m", "n"], ["k"])
    assert [node.name for node in fold.inputs] == ["p"]
    assert fold.loops == [tl.LoopSpec("m"), tl.LoopSpec("n"), tl.LoopSpec("k", 10), tl.LoopSpec("k")]
    assert fold.shape == (16, tenon.Expr("N"))
    assert ir.node("a").op is None
    with pytest.raises(tenon.Error, match="has no node %d"):
        ir.node("d")
    with pytest.raises(tenon.Error, match=r"bad\.loops:1"):
        tl.IR.parse("nonsense", "bad.loops")


def test_a_tree_can_be_read(matmul):
    assert str(matmul) == matmul.dump()
    assert matmul.roots == [0]
    assert [matmul.kind(ref) for ref, _ in matmul.walk()] == ["loop"] * 4 + ["node"] * 3
    outer = matmul.find("c")
    path = matmul.path(outer)
    assert [(matmul.loop(ref).var, matmul.loop(ref).size, matmul.loop(ref).tail) for ref in path] == [
        ("m", 16, 0),
        ("n", tenon.Expr("N"), 0),
        ("k", 1, 6),
        ("k", 10, 0),
    ]
    assert matmul.parent(0) is None
    assert matmul.parent(path[1]) == path[0]
    assert matmul.children(path[0]) == [path[1]]
    assert matmul.node(outer).name == "c"
    assert matmul.depth(outer) == 4
    assert matmul.lca(outer, matmul.find("out")) == path[1]
    assert matmul.contains(path[0], outer)
    assert matmul.find("a") is None
    assert [node.name for node in matmul.nodes_below(path[2])] == ["p", "c"]
    assert matmul.walk(path[2])[0] == (path[2], 2)
    assert "%out: f32[m, n] = write 0 (%c)  <-" in matmul.dump(lambda ref: "  <-" if ref == matmul.find("out") else "")
    for reading in (matmul.loop, matmul.children, matmul.parent, matmul.kind, matmul.node, matmul.depth):
        with pytest.raises(tenon.Error, match="there is no ref 99 in a tree of 7"):
            reading(99)
    with pytest.raises(tenon.Error, match="the ref 0 is a loop, not a node"):
        matmul.node(0)


def test_nodes_outlive_their_tree():
    node = tl.LoopTree(tl.IR.parse(MATMUL)).ir.node("c")
    gc.collect()
    assert node.inputs[0].inputs[1].name == "b"


def run(tree):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((16, 16), (16, 5)))
    (result,) = tl.compile(tree).run([x, y])
    np.testing.assert_array_equal(result, x @ y)


def loops(tree, node):
    return [(tree.loop(ref).var, tree.loop(ref).step) for ref in tree.path(tree.find(node))]


def test_edits_are_methods_and_functions(matmul):
    path = matmul.path(matmul.find("c"))
    split = matmul.split(path[0], 4)
    assert str(split) == str(tl.split(matmul, path[0], 4))
    assert loops(split, "c") == [("m", 4), ("m", 1), ("n", 1), ("k", 10), ("k", 1)]
    assert str(split.merge(split.roots[0])) == str(matmul)
    swapped = matmul.swap_loops(path[0], path[1])
    assert loops(swapped, "out") == [("n", 1), ("m", 1)]
    cut = matmul.unfuse(path[3], matmul.find("c"))
    assert cut.parent(cut.find("p")) != cut.parent(cut.find("c"))
    fused = cut.fuse(cut.parent(cut.find("c")))
    assert str(fused) == str(matmul)
    marked = matmul.annotate(path[0], "parallel")
    assert marked.loop(marked.roots[0]).annotation == "parallel"
    assert matmul.annotate(path[0], ("tile", "amx")).loop(0).annotation == ("tile", "amx")
    turned = matmul.reorder("out", ["n", tl.LoopSpec("m")]).reorder(matmul.ir.node("c"), ["n", "m", ("k", 10), "k"])
    assert loops(turned, "c") == [("n", 1), ("m", 1), ("k", 10), ("k", 1)]
    copied = matmul.copy_input("p", "b", path[1])
    assert copied.ir.node("b_copy").kind == "view"
    assert [n.name for n in copied.delete_copy("b_copy").ir.nodes] == [n.name for n in matmul.ir.nodes]
    parts = matmul.split_node("c", path[2])
    assert parts.ir.node("c_total").kind == "reduce"
    for tree in (matmul, split, swapped, cut, marked, turned, copied, parts):
        run(tree)
    with pytest.raises(tenon.Error, match=r"%p cannot run|before"):
        matmul.swap_nodes("p", "c")


def test_edits_that_are_not_possible_say_why(matmul):
    with pytest.raises(tenon.Error, match="cannot be marked parallel: %c folds k"):
        matmul.annotate(matmul.path(matmul.find("c"))[2], "parallel")
    with pytest.raises(tenon.Error, match="'fast' is not an annotation"):
        matmul.annotate(0, "fast")
    with pytest.raises(tenon.Error, match="no loop over n"):
        matmul.reorder("c", ["m", "k"])
    with pytest.raises(tenon.Error, match="has no variable z"):
        matmul.reorder("c", ["m", "z"])
    with pytest.raises(tenon.Error, match="is not a reduction"):
        matmul.split_node("p", 2)


def test_tools(matmul):
    assert matmul.flops() == tl.flops(matmul) == tenon.Expr("512*N")
    assert matmul.bytes() == tenon.Expr("128*N + 1024")
    assert matmul.is_parallel(0)
    assert not tl.is_parallel(matmul, matmul.path(matmul.find("c"))[2])
    split = matmul.split(0, 4)
    assert split.map_ref(split.find("out"), matmul) == matmul.find("out")
    assert tl.map_ref(matmul, matmul.find("c"), split) == split.find("c")
    assert tl.initial_schedule(matmul.ir).vars == matmul.ir.vars


def test_the_compiler(matmul):
    compiler = tl.Compiler(matmul)
    assert compiler.var_to_sym == {"m": "m", "k": "k", "n": "n"}
    assert compiler.sym_to_var == compiler.var_to_sym
    allocations = compiler.allocations
    assert [allocations[name].mem_idx for name in ("a", "b", "out")] == [0, 1, 2]
    assert (allocations["a"].size, allocations["a"].scratch, allocations["a"].lca) == (256, False, None)
    assert (allocations["c"].size, allocations["c"].scratch) == (1, True)
    assert allocations["b"].dims[0]["stride"] == tenon.Expr("N")
    assert compiler.carries == {}
    leaf = matmul.find("p")
    access = compiler.gen_access("a", leaf)
    inner, outer = matmul.parent(leaf), matmul.parent(matmul.parent(leaf))
    m, k_outer, k = (compiler.counter(ref) for ref in (matmul.roots[0], outer, inner))
    assert compiler.get_scoped_expr(access) == tenon.Expr(f"16*{m} + 10*{k_outer} + {k}")
    assert compiler.index_of("k", leaf) == tenon.Expr(f"10*{k_outer} + {k}")
    assert compiler.get_constraints(access) == []
    assert compiler.stride(access, inner) == 1
    assert (access.node.name, access.at, access.memory.mem_idx) == ("a", leaf, 0)
    assert str(access.index) == "(Expr('m'), Expr('k'))"
    with pytest.raises(tenon.Error, match="%p does not access %out"):
        compiler.gen_access("out", leaf)


def test_a_walk_with_the_compiler(matmul):
    compiler = tl.Compiler(matmul)
    m, n, outer, _ = matmul.path(matmul.find("c"))
    scope = compiler.root()
    for loop in (m, n):
        (whole,) = compiler.stretches(loop, scope)
        assert (whole.begin, whole.end) == (0, matmul.loop(loop).size)
        scope = whole.scope
    whole, tail = compiler.stretches(outer, scope)
    assert (whole.begin, whole.end, tail.begin, tail.end) == (0, 1, 1, 2)
    (inner,) = compiler.stretches(matmul.children(outer)[0], tail.scope)
    assert (inner.begin, inner.end) == (0, 6)
    (fill,) = compiler.fills(outer)
    assert (fill.node.name, fill.memory.mem_idx) == ("c", compiler.allocations["c"].mem_idx)
    assert (fill.counters, fill.extents, fill.offset, fill.source) == ([], (), 0, None)
    assert compiler.fills(m) == []


def test_constraints_of_a_padded_view(s):
    padded = tl.Tensor(vector(1, 2), s.m).pad(s.m, 1)
    tree = padded.loop_tree
    (view,) = [node for node in tree.ir.order if node.kind == "view"]
    compiler = tl.Compiler(tree)
    (piece,) = compiler.pieces(tree.find(view))
    ((expr, bound),) = compiler.get_constraints(piece)
    assert (str(expr), bound) == (f"{compiler.counter(0)} - 1", 2)
    assert piece.where[0][1] == 2
    stretches = compiler.stretches(0, compiler.root())
    assert [(part.begin, part.end) for part in stretches] == [(0, 1), (1, 3), (3, 4)]
    assert [len(compiler.get_constraints(piece, part.scope)) for part in stretches] == [1, 0, 1]


# ---- threads --------------------------------------------------------------------------------------------------------


def test_data_may_be_bound_while_others_run(s):
    x = tl.Tensor(s.m)
    total = (x * 2).sum(s.m)
    values = [np.ones(size, "f") for size in (100, 2000, 30000)]
    x.bind(values[0])
    wanted = {float(2 * value.sum()) for value in values}
    wrong, done = [], threading.Event()

    def read():
        while not done.is_set():
            try:
                found = float(total.numpy())
                if found not in wanted:
                    wrong.append(found)
            except tenon.Error:  # sizes of one array, elements of another
                pass

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(300):
        x.bind(values[i % 3])
        total.backend(["cpu", "interpreter"][i % 2])
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong
    for value in values:
        x.bind(value)
        assert float(total.numpy()) == 2 * value.sum()


# ---- backends --------------------------------------------------------------------------------------------------------


def test_a_kernel_runs_on_arrays_of_any_kind(matmul):
    kernel = tl.compile(matmul, "interpreter")
    assert kernel.dump() == str(matmul)
    x, y = torch.ones(16, 16), torch.ones(16, 3)
    (result,) = kernel.run([x, y])
    assert torch.equal(result, x @ y)
    out = np.zeros((16, 3), np.float32)
    (same,) = kernel.run([x.numpy(), y.numpy(), out])
    assert same is out
    assert (out == 16).all()
    with pytest.raises(tenon.Error, match="takes 2 inputs, or them and 1 outputs, got 1 arrays"):
        kernel.run([x])
    with pytest.raises(tenon.Error, match=r"output 0 must be f32\[16, 3\], got f32\[16, 4\]"):
        kernel.run([x, y, np.zeros((16, 4), np.float32)])
    out.flags.writeable = False
    with pytest.raises(tenon.Error, match="output 0 is read-only"):
        kernel.run([x.numpy(), y.numpy(), out])


class Numpy(tl.Backend):
    """Negates, with NumPy."""

    name = "numpy-negate"

    def __init__(self):
        self.compiled = 0

    def compile(self, tree):
        self.compiled += 1
        self.memory = None
        return self

    def run(self, memory):
        self.memory = [(array.shape, array.dtype, array.flags.writeable) for array in memory]
        np.negative(memory[0], out=memory[1])

    def dump(self):
        return "np.negative"


@pytest.fixture
def registered():
    backends = []

    def register(backend):
        tl.register_backend(backend)
        backends.append(backend)
        return backend

    yield register
    for backend in backends:
        tl.unregister_backend(backend.name)
    tl.clear_cache()


def test_a_backend_in_python(s, registered):
    backend = registered(Numpy())
    assert tl.backends()["numpy-negate"] == "Negates, with NumPy."
    assert tl.is_available("numpy-negate")
    for values in ((1, 2), (3, 4)):
        negated = (-tl.Tensor(vector(*values), s.m)).backend("numpy-negate")
        np.testing.assert_array_equal(negated.numpy(), -vector(*values))
    assert backend.compiled == 1
    assert backend.memory == [((2,), np.float32, False), ((2,), np.float32, True)]
    assert negated.code == "np.negative"
    x = tl.Tensor(s.m)
    np.testing.assert_array_equal(np.asarray((-x).backend("numpy-negate").run({x: vector(7, 8, 9)})), -vector(7, 8, 9))


def test_the_default_is_the_fastest_that_is_there(s):
    assert tl.default_backend() == "cpu"
    negated = -tl.Tensor(vector(1, 2), s.m)
    assert negated.code == negated.backend("cpu").code
    assert "define" in negated.code  # LLVM's text


def test_what_runs_is_the_backends_schedule_unless_one_is_set(s):
    a, b = tl.Tensor(np.ones((64, 64), "f"), s.m, s.k), tl.Tensor(np.ones((64, 64), "f"), s.k, s.n)
    product = (a * b).sum(s.k)
    planned = product.code
    product.set(product.loop_tree)
    assert product.code != planned
    assert product.set(None).code == planned


def test_a_backend_in_python_may_be_the_default(s, registered):
    registered(Numpy())
    before = tl.default_backend()
    tl.set_default_backend("numpy-negate")
    try:
        assert tl.default_backend() == "numpy-negate"
        assert (-tl.Tensor(vector(1), s.m)).code == "np.negative"
    finally:
        tl.set_default_backend(before)


def test_a_backend_in_python_cannot_write_to_inputs(s, registered):
    class Clearing:
        def run(self, memory):
            assert [array.flags.writeable for array in memory] == [False, True]
            memory[0][:] = 0

    class Writing(tl.Backend):
        name = "writing"

        def compile(self, tree):
            return Clearing()

    registered(Writing())
    array = vector(1, 2)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        (-tl.Tensor(array, s.m)).backend("writing").numpy()
    np.testing.assert_array_equal(array, [1, 2])


def test_a_backend_in_python_runs_on_threads(s, registered):
    registered(Numpy())
    results = {}

    def work(i):
        results[i] = [(-tl.Tensor(vector(i, i), s.m)).backend("numpy-negate").numpy()[0] for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: [-i] * 20 for i in range(4)}


def test_mistakes_of_backends(s, registered):
    class Broken(tl.Backend):
        name = "broken"

        def compile(self, tree):
            raise KeyError("not today")

    class Empty(tl.Backend):
        name = "empty"

        def compile(self, tree):
            return None

    class Elsewhere(tl.Backend):
        name = "elsewhere"
        hardware_requirement = 1 << 10

    negated = -tl.Tensor(vector(1), s.m)
    registered(Broken())
    with pytest.raises(KeyError, match="not today"):
        negated.backend("broken").numpy()
    registered(Empty())
    with pytest.raises(tenon.Error, match=r"must give an object with run\(memory\), got a NoneType"):
        negated.backend("empty").numpy()
    registered(Elsewhere())
    assert not tl.is_available("elsewhere")
    with pytest.raises(tenon.Error, match="which this machine lacks"):
        negated.backend("elsewhere").numpy()
    with pytest.raises(tenon.Error, match="backend broken is registered already"):
        tl.register_backend(Broken())
    with pytest.raises(tenon.Error, match=r"register an instance of \S*Broken, not the class"):
        tl.register_backend(Broken)
    with pytest.raises(tenon.Error, match="a backend needs a name"):
        tl.register_backend(tl.Backend())
    with pytest.raises(tenon.Error, match="there is no backend nothing"):
        tl.unregister_backend("nothing")


def test_a_schedule_is_of_one_computation(s):
    a = tl.Tensor(vector(1, 2, 3), s.m)
    e = a * 2
    with pytest.raises(tenon.Error, match=r"of another kernel \(lazy_\w+\), this one is lazy_\w+: make it from ir\(\)"):
        e.set((a * 3).loop_tree)
    np.testing.assert_array_equal(e.numpy(), [2, 4, 6])
    default = e.ir
    e.set(tl.IR.parse(str(e.loop_tree.split(0, 2).ir)))
    assert e.ir != default
    np.testing.assert_array_equal(e.numpy(), [2, 4, 6])
    assert e.set(None).ir == default
    with pytest.raises(tenon.Error, match="a schedule is a LoopTree, an IR or None, got an int"):
        e.set(1)


def test_the_name_of_a_kernel_is_that_of_another_process(s):
    other = subprocess.run([sys.executable, "-c", NAME_OF_A_KERNEL], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == (tl.Tensor(s.m, s.k) * 2.5).sum(s.k).ir.name


def test_outputs_that_overlap_themselves_are_refused(s):
    kernel = tl.compile((-tl.Tensor(vector(1, 2), s.m)).loop_tree)
    out = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (2,), (0,))
    with pytest.raises(tenon.Error, match="output 0 overlaps itself"):
        kernel.run([vector(1, 2), out])
    with pytest.raises(tenon.Error, match="output 0 is read-only"):
        kernel.run([vector(1, 2), np.broadcast_to(np.float32(0), (2,))])


def test_a_registered_backend_does_not_keep_python_from_ending():
    program = """
import numpy as np, tenon.loops as tl
class Mine(tl.Backend):
    name = "mine"
    def compile(self, tree):
        return tl.compile(tree)
tl.register_backend(Mine())
tl.set_default_backend("mine")
print((-tl.Tensor(np.ones(2, np.float32))).numpy())
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "[-1. -1.]\n", "")


# ---- the worked example ----------------------------------------------------------------------------------------------


def test_the_example_runs():
    result = subprocess.run(
        [sys.executable, ROOT / "examples/custom_backend.py"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "8192 operations" in result.stdout


@pytest.mark.parametrize(("file", "comment"), [("custom_backend.py", "#"), ("custom_backend.cpp", "//")])
def test_the_example_is_short(file, comment):
    text = (ROOT / "examples" / file).read_text()
    (body,) = re.findall(rf"^{comment} \[backend\]\n(.*?)^{comment} \[backend\]$", text, re.MULTILINE | re.DOTALL)
    assert len([line for line in body.splitlines() if line.strip()]) <= 15


def test_a_prepared_run_reads_and_writes_the_same_arrays_each_time(matmul):
    a, b, c = torch.randn(16, 16), torch.randn(16, 5), torch.empty(16, 5)
    run = tl.compile(matmul, "cpu").prepare([a, b, c])
    gc.collect()  # the kernel lives as long as its run
    run()
    torch.testing.assert_close(c, a @ b)
    a.fill_(2)
    run()
    torch.testing.assert_close(c, a @ b)


def test_what_a_prepared_run_refuses(matmul):
    kernel = tl.compile(matmul)
    a, b, c = torch.ones(16, 16), torch.ones(16, 5), torch.empty(16, 5)
    read_only = np.empty((16, 5), np.float32)
    read_only.flags.writeable = False
    for arrays, message in [
        ([a, b], "takes 2 inputs and 1 outputs, got 2 arrays"),
        ([a, b, torch.empty(16, 4)], "output 0 must be f32.16, N., got f32.16, 4."),
        ([a, b, c.double()], "output 0 must be f32"),
        ([a, b.t().contiguous().t(), c], "array 1 is not contiguous"),
        ([a, b, torch.empty(5, 16).t()], "array 2 is not contiguous"),
        ([a, b, read_only], "output 0 is read-only"),
        ([a, b, b], "output 0 and array 1 share memory"),
        ([a, b, a.view(-1)[100:180].view(16, 5)], "output 0 and array 0 share memory"),
    ]:
        with pytest.raises(tenon.Error, match=message):
            kernel.prepare(arrays)
    with pytest.raises(tenon.Error, match="has no size M"):
        kernel.prepare([a, b, c], sizes={"M": 3})


# ---- graphs, text and search -----------------------------------------------------------------------------------------


def softmax_graph():
    g = tenon.Graph("softmax")
    g.output(tenon.ops.softmax(g.input("x", "f32[4, N]"), dim=-1))
    return g


def test_a_graph_becomes_a_kernel():
    ir = tl.lower(softmax_graph())
    x = torch.randn(4, 7)
    for backend in filter(tl.is_available, tl.backends()):
        (y,) = tl.compile(ir, backend).run([x])
        torch.testing.assert_close(y, torch.softmax(x, -1))


def test_what_is_no_loop_is_refused():
    g = tenon.Graph("sorted")
    g.output(tenon.ops.sort(g.input("x", "f32[4]"))[0])
    with pytest.raises(tenon.Error, match="sort is a library task"):
        tl.lower(g)


def test_the_source_needs_no_compiler(matmul, monkeypatch):
    monkeypatch.setenv("TENON_CXX", "/nowhere/c++")
    assert 'extern "C"' in tl.emit_cpp(matmul, "matmul")
    with pytest.raises(tenon.Error, match="nowhere"):
        tl.compile(matmul, "cpp")
    with pytest.raises(tenon.Error, match="name"):
        tl.emit_cpp(matmul, "no name")


def test_machine_code_as_text(matmul):
    assert "define" in tl.emit_llvm(matmul)
    assert "zmm" not in tl.emit_asm(matmul, cpu="x86-64-v3")
    assert "i32.load" in tl.emit_asm(matmul, cpu="wasm32")
    assert ".target sm_80" in tl.emit_asm(matmul, "nvptx64")
    with pytest.raises(tenon.Error, match="did you mean 'x86-64-v3'"):
        tl.emit_llvm(matmul, cpu="x86-64-3")


def test_edits_as_text(matmul):
    assert str(tl.apply_edit(matmul, "annotate 0 parallel")) == str(matmul.annotate(0, "parallel"))
    with pytest.raises(tenon.Error, match="did you mean 'split'"):
        tl.apply_edit(matmul, "splt 0 4")


def test_a_search_gives_the_edits_that_it_made(matmul):
    tree, seconds, edits = tl.search(matmul, seconds=0.5, backend="interpreter", sizes={"N": 5})
    assert seconds > 0
    replayed = matmul
    for edit in edits:
        replayed = tl.apply_edit(replayed, edit)
    assert replayed.ir == tree.ir
    with pytest.raises(tenon.Error, match="the size N has no value"):
        tl.search(matmul, seconds=0.5)
    with pytest.raises(tenon.Error, match="a search takes"):
        tl.search(matmul, seconds=0, sizes={"N": 5})


def test_integers_shift(s):
    x = tl.Tensor(np.array([1, 2, 3], np.int32)).to(s.i)
    np.testing.assert_array_equal((x << 2).numpy(), [4, 8, 12])
    np.testing.assert_array_equal((16 >> x).numpy(), [8, 4, 2])


# ---- threads ------------------------------------------------------------------------------------


def test_the_number_of_threads_is_set_for_the_process_and_for_one_run():
    before = tl.threads()
    assert before >= 1
    tl.set_threads(3)
    assert tl.threads() == 3
    tl.set_threads(None)
    assert tl.threads() == before
    with pytest.raises(tenon.Error, match=r"threads must be in \[1, 512\], got 0"):
        tl.set_threads(0)


def test_one_thread_starts_none():
    code = """
import os
import numpy as np
import tenon.loops as tl
tl.set_threads(4)
kernel = tl.compile(tl.IR.parse('''tenon loops 1
kernel k {
  var i = 64
  %x: f32[i] = read 0
  %y: f32[i] = neg(%x) for i parallel
  %out: f32[i] = write 0 (%y) for i parallel
}'''), "cpp")
x = np.arange(64, dtype=np.float32)
before = len(os.listdir("/proc/self/task"))
alone = kernel.run([x], threads=1)[0]
assert len(os.listdir("/proc/self/task")) == before
assert tl.threads() == 4
together = kernel.run([x])[0]
assert len(os.listdir("/proc/self/task")) == before + 3
assert (alone == together).all() and (alone == -x).all()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
