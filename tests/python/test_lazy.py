"""The lazy device itself: who is in charge, what is counted and shown, and whose memory a run may take."""

import textwrap
import threading
from pathlib import Path

import pytest
import tenon
import tenon.lazy
import torch
from tenon.lazy import build

from tests.python import lazy_device, test_devices, warm

ROOT = Path(__file__).parents[2]


@pytest.fixture
def device():
    lazy_device.start()
    return torch.device("lazy")


def in_a_process(script):
    """In one of its own: what is in charge is so for all of a process."""
    head = "import torch, tenon, tenon.lazy\nfrom tests.python import lazy_device\n"
    done = warm.run(head + textwrap.dedent(script), cwd=ROOT, check=True)
    return done.stdout + done.stderr


# ---- who is in charge -----------------------------------------------------------------------------------------------


RUNS = """
assert tenon.lazy.is_initialized()
x = torch.arange(6.0).to("lazy")
assert (x * 2 + 1).cpu().tolist() == [1, 3, 5, 7, 9, 11]
metrics = tenon.lazy.metrics()
assert metrics["compiles"] > 0 and metrics["torchscript_runs"] == 0, metrics
"""


@pytest.mark.parametrize(
    "start",
    [
        "lazy_device.start()",
        "import torch._lazy.ts_backend; torch._lazy.ts_backend.init(); lazy_device.start()",
        "from torch._lazy.ts_backend import init; lazy_device.start(); init()",
        "lazy_device.start(); lazy_device.start()",
    ],
    ids=["alone", "after TorchScript", "before TorchScript", "twice"],
)
def test_tenon_is_in_charge(start):
    in_a_process(start + RUNS)


def test_graphs_that_torchscript_compiled_before_are_compiled_anew():
    in_a_process("""
        import torch._lazy.ts_backend
        torch._lazy.ts_backend.init()
        def compute():
            return (torch.arange(3.0).to("lazy") * 2 + 1).cpu().tolist()
        assert compute() == [1, 3, 5]
        lazy_device.start()
        assert compute() == [1, 3, 5]
        assert tenon.lazy.metrics()["compiles"] > 0
    """)


def test_the_rest_of_tenon_works_without_it():
    in_a_process("""
        for function in (tenon.lazy.mark_step, tenon.lazy.sync, tenon.lazy.metrics, tenon.lazy.explain):
            try:
                function()
            except tenon.Error as error:
                assert "call tenon.lazy.init() first" in str(error)
            else:
                raise AssertionError(function)
        assert not tenon.lazy.is_initialized()
        assert torch.compile(lambda x: x + 1, backend="tenon")(torch.ones(2)).tolist() == [2, 2]
    """)


# ---- building -------------------------------------------------------------------------------------------------------


def test_no_headers_are_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_torch_folder", lambda: tmp_path)
    with pytest.raises(tenon.Error, match=r"has no lazy device to build against: there is no .*ts_backend_impl\.h"):
        build.load()


def test_no_compiler_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("TENON_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(tenon.Error, match=r"needs a C\+\+20 compiler, and none of c\+\+, g\+\+, clang\+\+ is there"):
        build.load()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(tenon.Error, match="there is no 'no-such-compiler', which CXX names"):
        build.load()


def compiler(tmp_path, body):
    """A script that stands for one, and notes each call."""
    script = tmp_path / "compiler"
    script.write_text(f"#!/bin/sh\necho called >> {tmp_path}/calls\nfor last; do :; done\n{body}\n")
    script.chmod(0o755)
    return str(script)


def calls_of(tmp_path):
    return (tmp_path / "calls").read_text().splitlines()


def test_a_build_that_fails_says_what_the_compiler_said(monkeypatch, tmp_path):
    monkeypatch.setenv("TENON_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", compiler(tmp_path, "echo 'backend.cpp:1:2: error: no such thing' >&2; exit 1"))
    with pytest.raises(tenon.Error, match=r"could not be built: (.|\n)*error: no such thing"):
        build.load()
    assert not list(tmp_path.rglob("*.so*"))


def test_processes_that_start_together_build_once(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", compiler(tmp_path, 'sleep 0.5; echo library > "$last"'))
    folder = tmp_path / "folder"
    folder.mkdir()
    threads = [threading.Thread(target=build._built, args=(folder,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls_of(tmp_path) == ["called"]
    assert build._built(folder).read_text() == "library\n"
    assert sorted(path.suffix for path in folder.iterdir()) == ["", ".so"]


@pytest.mark.parametrize("what", ["cache", "folder", "library"])
def test_an_extension_that_others_can_write_is_not_run(monkeypatch, tmp_path, capfd, what):
    """As if another user had put his own there."""
    monkeypatch.setenv("TENON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", compiler(tmp_path, 'echo library > "$last"'))
    before = build._built(build._folder())
    assert before.is_relative_to(tmp_path / "cache")
    assert [path.stat().st_mode & 0o77 for path in (before, *before.parents[:2])] == [0, 0, 0]
    capfd.readouterr()
    {"cache": before.parents[1], "folder": before.parent, "library": before}[what].chmod(0o777)
    folder = build._folder()
    assert not folder.is_relative_to(tmp_path)
    assert "other users can write to" in capfd.readouterr().err
    assert build._built(folder) != before
    assert calls_of(tmp_path) == ["called", "called"]


def test_a_link_is_no_extension(monkeypatch, tmp_path):
    monkeypatch.setenv("TENON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", compiler(tmp_path, 'echo library > "$last"'))
    (tmp_path / "other.so").write_text("other\n")
    folder = build._folder()
    (folder / build._LIBRARY).symlink_to(tmp_path / "other.so")
    assert build._built(folder).read_text() == "library\n"


def test_without_a_place_to_write_the_process_builds_its_own(monkeypatch, tmp_path, capfd):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TENON_CACHE", str(tmp_path / "file"))
    assert build._folder().is_dir()
    assert "cannot be written" in capfd.readouterr().err


def test_a_file_that_is_no_extension_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("TENON_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", compiler(tmp_path, 'echo library > "$last"'))
    with pytest.raises(tenon.Error, match=r"does not fit PyTorch .*: remove it, and the next start builds it anew"):
        build.load()


def test_an_extension_of_another_torch_is_an_error(device, monkeypatch):
    monkeypatch.setenv("TENON_CACHE", str(lazy_device.CACHE))
    monkeypatch.setattr(build, "_release", lambda version: "9.9.9")
    with pytest.raises(tenon.Error, match=r"was built against PyTorch [\d.]+, and this is"):
        build.load()


# ---- what is counted and shown --------------------------------------------------------------------------------------


def test_metrics_count(device):
    for number in (2, 3, 4):
        (torch.full((4,), float(number)).to(device) + number).cpu()
    metrics = tenon.lazy.metrics()
    assert metrics["compiles"] == 1
    assert metrics["runs"] == 3
    assert metrics["hits"] == 2
    assert metrics["fallbacks"] == {}
    assert "compiles" in str(metrics)
    assert "hits              2" in str(metrics)


def test_what_the_device_does_not_record_is_counted_by_name(device):
    x = torch.tensor([3.0, 1.0, 3.0]).to(device)
    assert torch.unique(x * 2).cpu().tolist() == [2, 6]
    assert tenon.lazy.metrics()["fallbacks"] == {"aten::_unique2": 1}
    assert "aten::_unique2" in str(tenon.lazy.metrics())


def test_what_tenon_lacks_runs_within_the_graph_and_is_counted_by_name(device):
    x = torch.rand(3, 4)
    result = (x.to(device) * 2).renorm(2, 0, 0.5) + 1
    torch.testing.assert_close(result.cpu(), (x * 2).renorm(2, 0, 0.5) + 1)
    metrics = tenon.lazy.metrics()
    assert metrics["runs"] == 1
    assert metrics["fallbacks"] == {"aten::renorm": 1}


def test_calls_that_torch_does_not_record_are_recorded(device):
    def compute(x, index):
        a, b = x.chunk(2, 1)
        rows = torch.where(a > 0, a.sin(), b.clamp(max=0.5))[index]
        return torch.cat([rows.amax(1), *torch.lerp(a, b, 0.25).unbind(0)])

    x, index = torch.randn(3, 8), torch.tensor([2, 0, 1, 1])
    torch.testing.assert_close(compute(x.to(device), index.to(device)).cpu(), compute(x, index))
    metrics = tenon.lazy.metrics()
    assert metrics["runs"] == 1
    assert metrics["fallbacks"] == {}


def test_sizes_that_come_from_numbers(device):
    for count in (3, 5, 2):
        assert (torch.arange(count, device=device) * 2).cpu().tolist() == [2 * i for i in range(count)]


def test_torch_reports_our_metrics(device):
    (torch.ones(2).to(device) + 1).cpu()
    assert "Tenon:\ncompiles" in torch._lazy.metrics.metrics_report()


def test_explain_shows_the_last_graph(device):
    x = torch.ones(4, 8).to(device)
    y = (x * 3).sum(1)
    tenon.lazy.sync()
    text = tenon.lazy.explain()
    assert text.startswith("graph lazy")
    assert "Segment 0: cpu" in text
    assert "for " in text
    assert y.cpu().tolist() == [24] * 4


def test_torch_shows_our_text_of_a_graph(device):
    y = torch.ones(4).to(device).exp()
    text = torch._C._lazy._get_tensors_backend([y])
    assert "graph lazy" in text
    assert "exp" in text


# ---- memory ---------------------------------------------------------------------------------------------------------


def test_a_parameter_that_is_updated_keeps_its_memory(device):
    weight = torch.ones(1000).to(device)
    for _ in range(4):
        weight.mul_(0.5)
        tenon.lazy.mark_step()
    assert tenon.lazy.metrics()["reused_bytes"] == 4 * 4000
    assert weight.cpu().tolist() == [1 / 16] * 1000


def test_a_copy_on_the_cpu_is_not_overwritten(device):
    weight = torch.ones(8).to(device)
    seen = []
    for _ in range(4):
        weight.add_(1)
        tenon.lazy.mark_step()
        seen.append(weight.cpu())
    assert [x.tolist() for x in seen] == [[float(2 + i)] * 8 for i in range(4)]


def test_writing_to_a_copy_on_the_cpu_leaves_the_tensor_alone(device):
    weight = torch.ones(8).to(device)
    weight.add_(1)
    tenon.lazy.mark_step()
    weight.cpu().zero_()
    assert weight.cpu().tolist() == [2] * 8
    source = torch.ones(8)
    copy = source.to(device)
    source.zero_()
    assert copy.cpu().tolist() == [1] * 8


def test_what_is_recorded_still_reads_the_old_value(device):
    """One result is asked for while another, recorded of the same old value, waits."""
    for _ in range(3):
        weight = torch.full((8,), 2.0).to(device)
        weight.mul_(1)
        tenon.lazy.mark_step()
        old = weight.sum()
        product = weight * 3
        weight.add_(1)
        total = weight.sum()
        assert total.item() == 24
        assert product.cpu().tolist() == [6] * 8
        assert old.item() == 16
        assert weight.cpu().tolist() == [3] * 8


def test_views_of_an_updated_tensor(device):
    base = torch.zeros(4, 4).to(device)
    row, before = base[1], base.clone()
    for _ in range(3):
        base.add_(1)
        row.mul_(2)
        tenon.lazy.mark_step()
    expected = torch.full((4, 4), 3.0)
    expected[1] = 14
    assert torch.equal(base.cpu(), expected)
    assert torch.equal(row.cpu(), expected[1])
    assert torch.equal(before.cpu(), torch.zeros(4, 4))


def test_swapped_tensors(device):
    a, b = torch.zeros(8).to(device), torch.ones(8).to(device)
    for number in range(4):
        a, b = b + 0, a * 1
        tenon.lazy.mark_step()
        assert a.cpu().tolist() == [float(number % 2 == 0)] * 8
        assert b.cpu().tolist() == [float(number % 2 == 1)] * 8


# ---- random numbers -------------------------------------------------------------------------------------------------


def test_seeds_repeat(device):
    def dropped(seed):
        torch.manual_seed(seed)
        return torch.nn.functional.dropout(torch.ones(64).to(device), 0.5).cpu()

    assert torch.equal(dropped(1), dropped(1))
    assert not torch.equal(dropped(1), dropped(2))
    assert set(dropped(3).tolist()) == {0.0, 2.0}


# ---- failures -------------------------------------------------------------------------------------------------------


def out_of_range(device):
    return torch.nn.functional.embedding(torch.tensor([0, 7]).to(device), torch.ones(3, 2).to(device))


def test_whoever_asks_for_the_result_of_a_failed_graph_is_told(device):
    good, bad = torch.ones(2).to(device), out_of_range(device)
    worse = bad + 1
    for tensor in (bad, worse, bad, worse):
        with pytest.raises(RuntimeError, match="7"):
            tensor.cpu()
    tenon.lazy.mark_step()
    assert (good + 1).cpu().tolist() == [2, 2]


def test_a_step_that_fails_raises_an_error_once(device):
    good = torch.ones(2).to(device)
    bad = out_of_range(device)
    with pytest.raises(RuntimeError, match="7"):
        tenon.lazy.mark_step()
    good.add_(1)
    tenon.lazy.mark_step()
    assert good.cpu().tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="7"):
        bad.cpu()


def test_a_mistake_of_tenons_is_told_once():
    in_a_process("""
        import warnings
        def fails(x):
            raise ZeroDivisionError("by a mistake")
        tenon.aten.register("aten.erf.default(self)", fails)
        lazy_device.start()
        for size, told in ((3, 1), (4, 0)):
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                torch.testing.assert_close(torch.ones(size).to("lazy").erf().cpu(), torch.ones(size).erf())
            assert len(heard) == told, heard
        (reason,) = tenon.lazy.metrics()["internal_errors"]
        assert "the entry of aten.erf.default raised ZeroDivisionError: by a mistake" in reason
        metrics = tenon.lazy.metrics()
        assert metrics["internal_errors"][reason] == 2
        assert metrics["refused"] == {} and metrics["torchscript_runs"] == 2
    """)


def test_an_entry_that_gives_another_dtype_is_left_to_pytorch():
    in_a_process("""
        tenon.aten.register("aten.erf.default(self)", lambda x: tenon.ops.cast(x, dtype="f64"))
        lazy_device.start()
        torch.testing.assert_close((torch.ones(3).to("lazy").erf() * 2).cpu(), torch.ones(3).erf() * 2)
        assert tenon.lazy.metrics()["fallbacks"] == {"aten::erf": 1}
        assert "its entry gives torch.float64, where PyTorch has torch.float32" in tenon.lazy.explain()
    """)


# ---- devices --------------------------------------------------------------------------------------------------------


def test_a_device_that_cannot_be_opened_disturbs_no_other(tmp_path):
    source = test_devices.FAULTY.format(
        **test_devices.GOOD | {"open": 'return tenon_write_text(e, TENON_IO, "the cable is out");'}
    )
    (tmp_path / "broken.c").write_text(source.replace("NAME", "broken"))
    plugin = test_devices.build(tmp_path / "broken.c", tmp_path)
    in_a_process(f"""
        lazy_device.start()
        assert tenon.load_plugin({plugin!r}) == "broken"
        assert tenon.lazy.devices() == ["cpu", "broken"]
        x = torch.ones(3).to("lazy") * 2
        tenon.lazy.mark_step()
        torch.testing.assert_close(x.cpu(), torch.full((3,), 2.0))
        try:
            tenon.lazy.memory_info("lazy:1")
        except RuntimeError as error:
            assert "the cable is out" in str(error), error
        else:
            raise AssertionError("nobody knows the memory of a device that cannot be opened")
    """)


def test_ordinals_are_devices():
    in_a_process("""
        lazy_device.start()
        assert tenon.lazy.devices() == ["cpu"] and tenon.lazy.device_count() == 1
        assert tenon.load_plugin("build/accelerators/loopback.so") == "loopback"
        assert tenon.lazy.devices() == ["cpu", "loopback"]
        x = torch.randn(4, 8)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
        expected = model(x)
        expected.sum().backward()
        gradient = model[0].weight.grad.clone()
        for ordinal, device in enumerate(tenon.lazy.devices()):
            model.zero_grad()
            moved = model.to(f"lazy:{ordinal}")
            result = moved(x.to(f"lazy:{ordinal}"))
            assert result.device == torch.device("lazy", ordinal)
            result.sum().backward()
            tenon.lazy.mark_step(wait=True)
            assert f": {device} (" in tenon.lazy.explain(), tenon.lazy.explain()
            assert ordinal == 1 or "loopback" not in tenon.lazy.explain()
            torch.testing.assert_close(result.cpu(), expected)
            torch.testing.assert_close(moved[0].weight.grad.cpu(), gradient)
            torch.testing.assert_close((torch.ones(1, device=result.device) * 3).cpu(), torch.tensor([3.0]))
        assert tenon.lazy.metrics()["torchscript_runs"] == 0
        assert tenon.lazy.memory_info("lazy:1")["programs"] > 0
        assert tenon.lazy.memory_info(torch.device("lazy", 1))["tensors"] >= 4 * 8 * 4
        try:
            (x.to("lazy:2") * 2).cpu()
        except RuntimeError as error:
            assert "there is no device lazy:2" in str(error), error
        else:
            raise AssertionError("there are two devices")
    """)
