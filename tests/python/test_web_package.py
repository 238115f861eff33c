"""The npm package of `make web`: packed, installed by its path, typed, streamed, and in a worker."""

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "build/web"
MODEL = ROOT / "tests/golden/1.0/mlp.tenon"

pytestmark = [
    pytest.mark.skipif(not (WEB / "tenon.wasm").exists(), reason="there is no build/web/tenon.wasm: say make web"),
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no node"),
]


def node(script, folder):
    """What a module prints, as JSON."""
    path = folder / "script.mjs"
    path.write_text(script.replace("MODEL", json.dumps(str(MODEL))))
    done = subprocess.run(["node", path], cwd=folder, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the package, installed from its tarball."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm")
    folder = tmp_path_factory.mktemp("package")
    npm = ["npm", "--offline", "--cache", folder / "cache", "--no-audit", "--no-fund", "--no-update-notifier"]
    pack = [*npm, "pack", "--silent", "--pack-destination", folder, WEB]
    tarball = subprocess.run(pack, check=True, capture_output=True, text=True, timeout=300).stdout.split()[-1]
    (folder / "package.json").write_text('{"name": "user", "version": "1.0.0", "type": "module"}')
    subprocess.run([*npm, "install", folder / tarball], cwd=folder, check=True, capture_output=True, timeout=300)
    return folder


def test_the_package_is_whole_and_small():
    package = json.loads((WEB / "package.json").read_text())
    for name in [*package["files"], "README.md", "LICENSE"]:
        assert (WEB / name).exists(), name
    for entry in package["exports"].values():
        for path in entry.values() if isinstance(entry, dict) else [entry]:
            assert path.removeprefix("./") in [*package["files"], "package.json"]
    runtime = ["tenon.wasm", "tenon.mjs", "runtime.mjs"]
    size = sum(len(gzip.compress((WEB / name).read_bytes())) for name in runtime)
    assert size <= 200_000, f"{size} bytes, compressed"


def test_it_installs_by_path_and_runs(installed):
    script = """
    import { readFileSync } from "node:fs";
    import { Tenon } from "tenon";
    const program = (await Tenon.load()).open(readFileSync(MODEL));
    console.log(JSON.stringify(program.run([new Float32Array(32)])[0].shape));"""
    assert node(script, installed) == [2, 4]


def test_its_types_are_those_of_its_modules(installed):
    """A program that uses all of them compiles; one with a mistake does not."""
    if shutil.which("tsc") is None:
        pytest.skip("there is no tsc: install node-typescript")
    shutil.copy(Path(__file__).with_name("web_types.mts"), installed)
    flags = ["--noEmit", "--strict", "--target", "es2022", "--module", "node16", "--moduleResolution", "node16"]
    command = ["tsc", *flags, "--lib", "es2022,dom", "web_types.mts"]
    done = subprocess.run(command, cwd=installed, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    (installed / "web_types.mts").write_text('import { Tenon } from "tenon"; (await Tenon.load()).opens(3);')
    assert subprocess.run(command, cwd=installed, capture_output=True, timeout=300).returncode != 0
    for module in ("tenon", "worker"):
        declared = set(re.findall(r"^export class (\w+)", (WEB / f"{module}.d.mts").read_text(), re.MULTILINE))
        exported = node(f'console.log(JSON.stringify(Object.keys(await import("{WEB}/{module}.mjs"))));', installed)
        assert declared == set(exported)


def test_files_stream_in_with_progress(tmp_path):
    script = """
    import { readFileSync } from "node:fs";
    import { Tenon } from "WEB/tenon.mjs";
    const tenon = await Tenon.load();
    const bytes = readFileSync(MODEL);
    const pieces = (most) => new ReadableStream({
      start(control) {
        for (let at = 0; at < bytes.length; at += most) control.enqueue(new Uint8Array(bytes.subarray(at, at + most)));
        control.close();
      },
    });
    const steps = [];
    const streamed = await tenon.openFrom(pieces(1000), { onProgress: (step) => steps.push(step) });
    const blob = await tenon.openFrom(new Blob([bytes]), { onProgress: (step) => steps.push(step) });
    const same = tenon.open(bytes);
    const x = Float32Array.from({ length: 32 }, (_, i) => i / 8);
    const results = [streamed, blob, same].map((program) => [...program.run([x])[0].data]);
    const errors = [];
    const note = (error) => errors.push([error.name, error.status ?? null, error.message]);
    await tenon.openFrom(new ReadableStream({ start: (control) => control.close() })).catch(note);
    await tenon.openFrom(new Response("", { status: 404 })).catch(note);
    const stop = new AbortController();
    const endless = new ReadableStream({ pull: (control) => control.enqueue(new Uint8Array(1000)) });
    let count = 0;
    const onProgress = () => ++count === 5 && stop.abort();
    await tenon.openFrom(endless, { signal: stop.signal, onProgress }).catch(note);
    console.log(JSON.stringify({ steps, results, errors, count, size: bytes.length }));"""
    got = node(script.replace("WEB", str(WEB)), tmp_path)
    assert got["results"][0] == got["results"][1] == got["results"][2]
    assert len({*got["results"][0]}) > 2
    loaded = [step["loaded"] for step in got["steps"] if "total" not in step]
    assert loaded == [*range(1000, got["size"], 1000), got["size"]]
    assert got["steps"][-1] == {"loaded": got["size"], "total": got["size"]}
    empty, missing, aborted = got["errors"]
    assert empty[:2] == ["TenonError", "bad file"]
    assert missing[:2] == ["TenonError", "io"]
    assert "404" in missing[2]
    assert aborted[0] == "AbortError"
    assert got["count"] == 5


def test_a_module_has_the_runtime_and_the_model_in_one(tmp_path):
    subprocess.run([ROOT / "build/bin/tenon", "web", MODEL, "-o", tmp_path / "mlp.wasm"], check=True)
    script = """
    import { readFileSync } from "node:fs";
    import { Program, Tenon } from "WEB/tenon.mjs";
    const x = Float32Array.from({ length: 32 }, (_, i) => i / 8);
    const wanted = (await Tenon.load()).open(readFileSync(MODEL)).run([x])[0].data;
    const program = await Program.load(new URL("mlp.wasm", import.meta.url));
    const [{ data }] = program.run([x]);
    const refused = await Program.load(readFileSync("WEB/tenon.wasm")).catch((error) => [error.name, error.message]);
    console.log(JSON.stringify({ same: data.every((each, i) => each === wanted[i]), refused }));"""
    got = node(script.replace("WEB", str(WEB)), tmp_path)
    assert got["same"]
    assert got["refused"][0] == "TenonError"
    assert "has no model in it" in got["refused"][1]


def test_a_program_is_described(tmp_path):
    script = """
    import { readFileSync } from "node:fs";
    import { Tenon } from "WEB/tenon.mjs";
    const tenon = await Tenon.load("tenon-inspect.wasm");
    const [mlp, symbolic] = ["mlp", "symbolic"].map((name) => tenon.open(readFileSync(MODEL.replace("mlp", name))));
    const before = symbolic.describe().plan;
    const pairs = { data: new Float32Array(7), shape: [7] };
    symbolic.run([{ data: new Float32Array(12), shape: [3, 4] }, pairs]);
    const small = (await Tenon.load()).open(readFileSync(MODEL));
    let refused;
    try { small.describe(); } catch (error) { refused = error.message; }
    console.log(JSON.stringify({ mlp: mlp.describe(), before, symbolic: symbolic.describe(), refused }));"""
    got = node(script.replace("WEB", str(WEB)), tmp_path)
    mlp = got["mlp"]
    assert [each["name"] for each in mlp["inputs"]] == ["x"]
    assert mlp["slots"][mlp["inputs"][0]["slot"]]["type"] == "f32[2, 16]"
    assert {task["kind"] for task in mlp["tasks"]} == {"kernel"}
    assert all("for " in mlp["loops"][task["loops"]] for task in mlp["tasks"])
    written = [slot for task in mlp["tasks"] for slot in task["outputs"]]
    assert all(mlp["slots"][slot]["first"] >= 0 for slot in written)
    assert mlp["plan"]["bytes"] >= mlp["plan"]["least"]
    assert {"program", "weights", "graph"} <= {section["kind"] for section in mlp["sections"]}
    assert got["before"] is None
    assert got["symbolic"]["plan"] is not None
    assert "N" in got["symbolic"]["slots"][0]["type"]
    assert "tenon-inspect.wasm" in got["refused"]


def test_everything_works_in_a_worker(tmp_path):
    script = """
    import { readFileSync } from "node:fs";
    import { Tenon } from "WEB/tenon.mjs";
    import { WorkerTenon } from "WEB/worker.mjs";
    const bytes = readFileSync(MODEL);
    const x = Float32Array.from({ length: 32 }, (_, i) => i / 8);
    const wanted = (await Tenon.load()).open(bytes).run([x])[0].data;
    const tenon = await WorkerTenon.load();
    const program = await tenon.open(bytes);
    const [{ data }] = await program.run([x], { telemetry: true });
    const events = await program.events();
    const errors = [];
    const note = (error) => errors.push([error.name, error.status ?? null]);
    await program.run([new Float64Array(3)]).catch(note);
    await tenon.open(new Uint8Array(70)).catch(note);
    await program.run([x], { signal: AbortSignal.abort() }).catch(note);
    const stop = new AbortController();
    const late = program.run([x], { signal: stop.signal }).catch(note);
    stop.abort();
    await late;
    const file = readFileSync(MODEL.replace("1.0/mlp", "1.1/training"));
    const training = await tenon.openFrom(new Blob([file]));
    const here = (await Tenon.load()).open(file);
    const step = [new Float32Array(12).fill(0.5), new Float32Array(3)];
    const losses = [];
    for (let i = 0; i < 5; ++i) losses.push([await training.run(step), here.run(step)].map(([{ data }]) => data[0]));
    const states = (await training.states.list()).map(({ name }) => name);
    const evaluation = await training.entry("eval");
    const names = evaluation.inputs.map(({ name }) => name);
    await training.close();
    await training.run(step).catch(note);
    const waiting = program.run([x]).catch(note);
    tenon.terminate();
    await waiting;
    await program.run([x]).catch(note);
    const same = data.every((each, i) => each === wanted[i]);
    console.log(JSON.stringify({ same, events, errors, losses, states, names, about: program.inputs }));"""
    got = node(script.replace("WEB", str(WEB)), tmp_path)
    assert got["same"]
    assert got["about"] == [{"name": "x", "dtype": "f32", "shape": [2, 16]}]
    assert got["events"]
    assert all(event["end"] >= event["start"] for event in got["events"])
    assert all(loss == wanted for loss, wanted in got["losses"])
    assert len({loss for loss, _ in got["losses"]}) == 5
    assert "line.weight" in got["states"]
    assert got["names"]
    refused = ["TenonError", "invalid argument"]
    bad, aborted = ["TenonError", "bad file"], ["AbortError", None]
    assert got["errors"] == [refused, bad, aborted, aborted, refused, aborted, refused]
