import json

import numpy as np
import pytest

GRAPH = """graph g(%x: f32[N, 3], %k: f32[3]) {
  %w: f32[3] = parameter "fc.weight"
  %b: f32[3] = buffer "bn/mean"
  %0: f32[N, 3] = mul(%x, %w)
  %y: f32[N, 3] = add(%0, %k)
  %s: f32[3] = sum(%y) {dims=[0]}
  %z: f32[3] = add(%s, %b)
  return %y, %s, %0
}
"""
X = np.array([[1, 2, 3], [4, 5, 6.5]], np.float32)
K = np.array([0.5, -1, 1e-3], np.float32)
W = np.array([1, 10, 100], np.float32)
B = np.array([1, 1, 1], np.float32)
Y = X * W + K
ARGS = ["eval", "g.tg", "-i", "x.npy", "-i", "k.npy", "-p", "fc.weight=w.npy", "-p", "bn/mean=b.npy"]
NUMPY_NAMES = {
    "f64": "f8",
    "f32": "f4",
    "f16": "f2",
    "i64": "i8",
    "i32": "i4",
    "i16": "i2",
    "i8": "i1",
    "u8": "u1",
    "bool": "b1",
}


@pytest.fixture(autouse=True)
def files(tmp_path):
    (tmp_path / "g.tg").write_text(GRAPH)
    for name, array in {"x": X, "k": K, "w": W, "b": B}.items():
        np.save(tmp_path / name, array)
    np.savez(tmp_path / "weights.npz", **{"fc.weight": W, "bn/mean": B})
    np.savez(tmp_path / "inputs.npz", k=K, x=X)


def outputs(run):
    assert (run.code, run.err) == (0, "")
    return {item["name"]: np.array(item["data"], np.float32) for item in json.loads(run.out)["outputs"]}


# ---- inputs and parameters ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        "--input x.npy --input k.npy --param fc.weight=w.npy --param bn/mean=b.npy",
        "-i x=x.npy -i k=k.npy -p weights.npz",
        "-i k=k.npy -i x.npy -p weights.npz",
        "-i ./x.npy -i k.npy -p weights.npz --random-params 3",
        "-p weights.npz -i inputs.npz",
        "-p fc.weight=w.npy --random-params 3 -i inputs.npz",
    ],
)
def test_inputs_by_position_by_name_and_by_archive(tenon, args):
    results = outputs(tenon("eval", "g.tg", *args.split(), "--json"))
    assert list(results) == ["y", "s", "out2"]
    np.testing.assert_allclose(results["y"], Y, rtol=1e-6)
    np.testing.assert_allclose(results["s"], Y.sum(0), rtol=1e-6)
    np.testing.assert_allclose(results["out2"], X * W, rtol=1e-6)


def test_the_graph_may_come_from_standard_input(tenon):
    run = tenon("eval", "-", "-i", "x.npy", "--json", stdin="graph g(%x: f32[A, B]) {\n  %y = neg(%x)\n  return %y\n}")
    np.testing.assert_array_equal(outputs(run)["y"], -X)


def test_random_parameters_depend_on_seed_and_name(tenon):
    args = ["eval", "g.tg", "-i", "x.npy", "-i", "k.npy", "--json", "--random-params"]
    first, again, other = (outputs(tenon(*args, seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first["y"], again["y"])
    assert not np.allclose(first["y"], other["y"])
    graph = 'graph g() {\n  %a: f32[3, 5] = parameter "a"\n  %w: f32[3] = parameter "fc.weight"\n  return %w, %a\n}'
    shown = outputs(tenon("eval", "-", "--json", "--random-params", 1, stdin=graph))
    np.testing.assert_allclose(shown["w"] * X[1, 0], (first["y"] - K)[1] * (4 / X[1]), rtol=1e-5)
    assert np.all(np.abs(shown["a"]) <= 1 / np.sqrt(5))
    assert len(np.unique(shown["a"])) == 15


def test_random_integers_and_buffers(tenon):
    graph = """graph g() {
  %i: i64[100] = parameter "i"
  %t: bool[100] = parameter "t"
  %v: f32[100] = buffer "v"
  return %i, %t, %v
}"""
    results = outputs(tenon("eval", "-", "--random-params", 0, "--json", stdin=graph))
    assert set(results["i"]) == {0, 1}
    assert set(results["t"]) == {0, 1}
    assert 0 <= results["v"].min() < 0.1
    assert 0.9 < results["v"].max() < 1


# ---- what it prints ----------------------------------------------------------------------------------------------


def shown(tenon, tmp_path, array, dtype):
    np.save(tmp_path / "v.npy", array)
    text = f"graph g(%v: {dtype}{list(np.shape(array))}) {{\n  return %v\n}}"
    run = tenon("eval", "-", "-i", "v.npy", stdin=text)
    assert (run.code, run.err) == (0, "")
    return run.out


@pytest.mark.parametrize(
    ("array", "dtype", "expected"),
    [
        (np.float32(0.5), "f32", "v: f32[]\n0.5\n"),
        (np.float32([0.1, -2]), "f32", "v: f32[2]\n[ 0.1, -2.0]\n"),
        (np.float32([1 / 3, 100]), "f32", "v: f32[2]\n[  0.33333334, 100.00000000]\n"),
        (np.float64([1 / 3]), "f64", "v: f64[1]\n[0.33333333]\n"),
        (np.float16([0.1, 1.5]), "f16", "v: f16[2]\n[0.1, 1.5]\n"),
        (np.float32([1e-6, 1]), "f32", "v: f32[2]\n[1.0e-06, 1.0e+00]\n"),
        (np.float32([1e10, np.inf, -np.inf, np.nan]), "f32", "v: f32[4]\n[1.0e+10,     inf,    -inf,     nan]\n"),
        (np.int64([-5, 12345]), "i64", "v: i64[2]\n[   -5, 12345]\n"),
        (np.uint8([[255], [0]]), "u8", "v: u8[2, 1]\n[[255],\n [  0]]\n"),
        (np.array([True, False]), "bool", "v: bool[2]\n[ true, false]\n"),
        (np.zeros((2, 0), np.float32), "f32", "v: f32[2, 0]\n[]\n"),
        (np.int8([[[1, 2]], [[3, 4]]]), "i8", "v: i8[2, 1, 2]\n[[[1, 2]],\n\n [[3, 4]]]\n"),
    ],
)
def test_values_are_printed_like_numpys(tenon, tmp_path, array, dtype, expected):
    assert shown(tenon, tmp_path, array, dtype) == expected


def test_many_values_are_abbreviated(tenon, tmp_path):
    text = shown(tenon, tmp_path, np.arange(10000, dtype=np.int32).reshape(100, 100), "i32")
    assert text.splitlines()[1] == "[[   0,    1,    2, ...,   97,   98,   99],"
    assert text.splitlines()[4] == " ...,"
    assert text.splitlines()[-1] == " [9900, 9901, 9902, ..., 9997, 9998, 9999]]"


def test_long_rows_wrap(tenon, tmp_path):
    text = shown(tenon, tmp_path, np.arange(100, dtype=np.int64), "i64")
    assert all(len(line) <= 100 for line in text.splitlines())
    assert [int(word) for word in text.split("\n", 1)[1].strip("[]\n").split(",")] == list(range(100))


def test_json_is_exact_and_complete(tenon, tmp_path):
    array = np.float32([[0.1, -0.0, np.nan], [np.inf, -np.inf, 3.4028235e38]])
    np.save(tmp_path / "v.npy", array)
    run = tenon("eval", "-", "-i", "v.npy", "--json", stdin="graph g(%v: f32[2, 3]) {\n  return %v\n}")
    (item,) = json.loads(run.out)["outputs"]
    assert (item["name"], item["dtype"], item["shape"], item["updated"]) == ("v", "f32", [2, 3], False)
    values = [[float(value) for value in row] for row in item["data"]]
    assert np.float32(values).tobytes() == array.tobytes()
    assert item["data"][0][2] == "nan"
    assert item["data"][1][:2] == ["inf", "-inf"]


def test_updates_are_results(tenon, tmp_path):
    graph = """graph count(%x: i64[2]) {
  %n: i64[2] = buffer "steps/n"
  %m: i64[2] = add(%n, %x)
  update %n = %m
  update %x = %n
  return %n
}"""
    np.save(tmp_path / "i.npy", np.array([1, 2]))
    np.save(tmp_path / "n.npy", np.array([10, 20]))
    args = ["eval", "-", "-i", "i.npy", "-p", "weights2.npz"]
    np.savez(tmp_path / "weights2.npz", **{"steps/n": np.array([10, 20])})
    text = tenon(*args, stdin=graph).out
    assert text == "n: i64[2]\n[10, 20]\nsteps_n (updated): i64[2]\n[11, 22]\nx (updated): i64[2]\n[10, 20]\n"
    assert tenon(*args, "-o", "out", stdin=graph).code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["n.npy", "steps_n.npy", "x.npy"]
    np.testing.assert_array_equal(np.load(tmp_path / "i.npy"), [1, 2])


# ---- what it writes ----------------------------------------------------------------------------------------------


def test_results_go_to_files(tenon, tmp_path):
    run = tenon(*ARGS, "--output", "a/b")
    assert (run.code, run.out, run.err) == (0, "", "")
    assert sorted(path.name for path in (tmp_path / "a/b").iterdir()) == ["out2.npy", "s.npy", "y.npy"]
    np.testing.assert_allclose(np.load(tmp_path / "a/b/y.npy"), Y, rtol=1e-6)
    run = tenon(*ARGS, "--output", "all.npz", "--json")
    assert json.loads(run.out)["outputs"][0]["name"] == "y"
    with np.load(tmp_path / "all.npz") as archive:
        assert list(archive) == ["y", "s", "out2"]
        np.testing.assert_allclose(archive["y"], Y, rtol=1e-6)


def test_one_value_returned_twice_has_two_names(tenon):
    run = tenon("eval", "-", "-i", "k.npy", "--json", stdin="graph g(%k: f32[3]) {\n  return %k, %k\n}")
    assert list(outputs(run)) == ["k", "k_1"]


@pytest.mark.parametrize(("dtype", "name"), NUMPY_NAMES.items())
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_numpys_files_in_and_out(tenon, tmp_path, name, dtype, order, layout):
    array = (np.arange(24).reshape(2, 3, 4) - 3).astype(np.dtype(name).newbyteorder(order)).copy(layout)
    np.save(tmp_path / "v.npy", array)
    text = f"graph g(%v: {dtype}[2, 3, 4]) {{\n  return %v\n}}"
    assert tenon("eval", "-", "-i", "v.npy", "-o", "out", stdin=text).code == 0
    result = np.load(tmp_path / "out/v.npy")
    assert result.dtype == np.dtype(name)
    np.testing.assert_array_equal(result, array)


def test_bf16_goes_as_two_bytes(tenon, tmp_path):
    bits = np.array([0x3F80, 0xBF80, 0x7FC1, 0x0001], np.uint16)
    np.save(tmp_path / "v.npy", bits.view("V2"))
    text = "graph g(%v: bf16[4]) {\n  return %v\n}"
    assert tenon("eval", "-", "-i", "v.npy", "-o", "out", stdin=text).code == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out/v.npy").view(np.uint16), bits)


# ---- what is wrong -----------------------------------------------------------------------------------------------


MISSING = "g.tg: error: no data for parameter 'fc.weight', buffer 'bn/mean': give --param NAME=FILE.npy, or --random"
WRONG_INPUTS = {
    "": "g.tg: error: input 'x' (f32[N, 3]) is not given: add --input x=FILE.npy",
    "-i x.npy": "g.tg: error: input 'k' (f32[3]) is not given: add --input k=FILE.npy",
    "-i x.npy -i x.npy": "x.npy: error: input 'k' is f32[3], but the file has f32[2, 3]",
    "-i x.npy -i k.npy -i k.npy": "k.npy: error: the model takes 2 inputs, and more are given",
    "-i x=x.npy -i x=x.npy": "x.npy: error: input 'x' is given twice",
    "-i y=x.npy": "x.npy: error: the graph has no input 'y'; did you mean 'x'?",
    "-i x64.npy": "x64.npy: error: input 'x' is f32[N, 3], but the file has f64[2, 3]; cast the array before",
    "-i wide.npy -i k.npy": "g.tg: error: dimension 1 of input 'x'",
    "-i x=inputs.npz": "inputs.npz: error: an archive names its arrays itself; give it without 'x='",
    "-i none.npy": "none.npy: error: cannot open: No such file or directory",
    "-i g.tg": "g.tg: error: not a .npy file",
    "-i text.npz": "text.npz: error: not a zip archive",
    "-i packed.npz": "packed.npz: error: 'x.npy' in the zip archive is compressed; store it without compression",
    "-i object.npy": "object.npy: error: malformed .npy header: dtype '|O' is not supported; cast the array to",
}
WRONG_PARAMETERS = {
    "": MISSING,
    "-p w.npy": "w.npy: error: --param takes NAME=FILE.npy, or FILE.npz",
    "-p fc.wieght=w.npy": "w.npy: error: the graph has no parameter or buffer 'fc.wieght'; did you mean 'fc.weight'?",
    "-p x=x.npy": "x.npy: error: the graph has no parameter or buffer 'x'",
    "-p fc.weight=w.npy -p fc.weight=w.npy": "w.npy: error: parameter 'fc.weight' is given twice",
    "-p fc.weight=x.npy": "x.npy: error: parameter 'fc.weight' is f32[3], but the file has f32[2, 3]",
    "-p fc.weight=long.npy": "long.npy: error: parameter 'fc.weight' is f32[3], but its data is f32[4]",
}


@pytest.mark.parametrize(
    ("args", "message"),
    [("-p weights.npz " + args, message) for args, message in WRONG_INPUTS.items()] + list(WRONG_PARAMETERS.items()),
)
def test_wrong_inputs_are_explained(tenon, tmp_path, args, message):
    np.save(tmp_path / "x64.npy", X.astype(np.float64))
    np.save(tmp_path / "wide.npy", np.ones((2, 4), np.float32))
    np.save(tmp_path / "long.npy", np.ones(4, np.float32))
    np.save(tmp_path / "object.npy", np.array([None]), allow_pickle=True)
    np.savez_compressed(tmp_path / "packed.npz", x=X)
    (tmp_path / "text.npz").write_text("hello")
    run = tenon("eval", "g.tg", *args.split())
    assert (run.code, run.out) == (1, "")
    assert run.err.startswith(message)
    assert run.err.count("\n") == 1


def test_an_error_of_a_node_names_the_models_line(tenon, tmp_path):
    np.save(tmp_path / "i.npy", np.array([7]))
    text = 'graph g(%x: f32[3], %i: i64[1]) {\n  %y = index(%x, %i) @ "model.py":12\n  return %y\n}'
    run = tenon("eval", "-", "-i", "k.npy", "-i", "i.npy", stdin=text)
    assert run.code == 1
    assert run.err.startswith("model.py:12: error: ")
    run = tenon("eval", "g2.tg", "-i", "k.npy", "-i", "i.npy", files={"g2.tg": text.replace(' @ "model.py":12', "")})
    assert run.err.startswith("g2.tg: error: ")


def test_random_parameters_need_sizes(tenon):
    text = 'graph g() {\n  %w: f32[N] = parameter "w"\n  return %w\n}'
    run = tenon("eval", "-", "--random-params", 1, stdin=text)
    assert run.err == "<stdin>: error: parameter 'w' has the symbolic type f32[N]: give it with --param\n"


def test_results_that_cannot_be_written(tenon, tmp_path):
    (tmp_path / "file").write_text("")
    run = tenon(*ARGS, "-o", "file/out")
    assert run.code == 1
    assert run.err == "file/out: error: cannot write: Not a directory\n"
    (tmp_path / "out").mkdir()
    (tmp_path / "out/s.npy").mkdir()
    run = tenon(*ARGS, "-o", "out")
    assert (run.code, run.err) == (1, "out/s.npy: error: cannot write: Is a directory\n")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["s.npy", "y.npy"]


def test_an_impossible_size_is_an_error(tenon):
    text = "graph g() {\n  %y = full() {value=1.0, shape=[4611686018427387904], dtype=f32}\n  return %y\n}"
    run = tenon("eval", "-", stdin=text)
    assert run.code == 1
    assert "has more than 2^63 - 1 bytes" in run.err
