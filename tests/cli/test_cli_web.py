"""tenon web: a model and the runtime as one WebAssembly module. tests/python/test_web_package.py opens one."""

RUNTIME = b"\0asm\1\0\0\0"  # the smallest module
GRAPH = "graph g(%x: f32[4]) {\n  %y: f32[4] = relu(%x)\n  return %y\n}\n"


def test_the_file_is_a_section_of_the_module(tenon, tmp_path):
    assert tenon("compile", "g.tg", "-o", "g.tenon", "--cpu", "wasm32", files={"g.tg": GRAPH}).code == 0
    (tmp_path / "tenon.wasm").write_bytes(RUNTIME)
    done = tenon("web", "g.tenon", "--runtime", "tenon.wasm", "-o", "g.wasm")
    assert (done.code, done.err) == (0, "")
    model, module = (tmp_path / "g.tenon").read_bytes(), (tmp_path / "g.wasm").read_bytes()
    assert module.startswith(RUNTIME + b"\0")
    assert module.endswith(b"\x0atenon.file" + model)
    size, shift = 0, 0
    for byte in module[9 : -len(model) - 11]:
        size |= (byte & 0x7F) << shift
        shift += 7
    assert size == 11 + len(model)


def package(folder):
    """What looks like the package of `make web`."""
    folder.mkdir()
    for name in ("tenon.wasm", "tenon-kernels.wasm", "kernel_server.mjs"):
        (folder / name).write_bytes(RUNTIME)


def test_compile_writes_such_a_module_too(tenon, tmp_path, monkeypatch):
    (tmp_path / "g.tg").write_text(GRAPH)
    monkeypatch.setenv("TENON_WEB", str(tmp_path / "none"))
    done = tenon("compile", "g.tg", "-o", "g.wasm")
    assert done.code == 1
    assert "make web" in done.err
    package(tmp_path / "web")
    monkeypatch.setenv("TENON_WEB", str(tmp_path / "web"))
    done = tenon("compile", "g.tg", "-o", "g.wasm")
    assert (done.code, done.err) == (0, "")
    assert "wasm32-relaxed" in done.out
    assert (tmp_path / "g.wasm").read_bytes().startswith(RUNTIME + b"\0")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["g.tg", "g.wasm", "web"]
    done = tenon("compile", "g.tg", "-o", "t.wasm", "--train", "--loss", "mse", "--optimizer", "sgd(lr=0.1)")
    assert done.code == 1
    assert "tenon web" in done.err


def test_a_model_without_code_for_it_is_a_warning(tenon, tmp_path):
    assert tenon("compile", "g.tg", "-o", "g.tenon", files={"g.tg": GRAPH}).code == 0
    (tmp_path / "tenon.wasm").write_bytes(RUNTIME)
    done = tenon("web", "g.tenon", "--runtime", "tenon.wasm", "-o", "g.wasm")
    assert done.code == 0
    assert "g.tenon has no code for wasm32" in done.err
    assert "--cpu wasm32,wasm32-relaxed" in done.err


def test_what_is_no_model_and_what_is_no_runtime(tenon, tmp_path):
    assert tenon("compile", "g.tg", "-o", "g.tenon", "--cpu", "wasm32", files={"g.tg": GRAPH}).code == 0
    for arguments, message in [
        (("g.tg", "--runtime", "g.tg", "-o", "g.wasm"), "this is not a Tenon file"),
        (("g.tenon", "--runtime", "g.tg", "-o", "g.wasm"), "g.tg: error: is no WebAssembly module"),
        (("g.tenon", "--runtime", "none.wasm", "-o", "g.wasm"), "none.wasm"),
        (("g.tenon", "--runtime", "g.tg", "-o", "none/g.wasm"), "none"),
    ]:
        done = tenon("web", *arguments)
        assert done.code == 1
        assert message in done.err
        assert not (tmp_path / "g.wasm").exists()
