"""tenon run of .pt2 files gives what PyTorch gives."""

import numpy as np
import torch
from cli_models import Returning
from torch.export import Dim, export, save


def test_run_gives_what_the_model_returns(tenon, tmp_path):
    model = Returning()
    save(export(model, (torch.ones(3, 4),), dynamic_shapes=({0: Dim("n", min=2)},)), tmp_path / "model.pt2")
    x = torch.randn(5, 4).abs() + 0.1
    np.save(tmp_path / "x.npy", x.numpy())
    done = tenon("run", "model.pt2", "-i", "x.npy", "-o", "out.npz")
    assert done.code == 0, done.err
    results = np.load(tmp_path / "out.npz")
    expected = model(x)
    assert sorted(results) == ["p_weight", "relu_1", "x"]
    np.testing.assert_allclose(results["relu_1"], expected[0].detach().numpy())
    np.testing.assert_array_equal(results["x"], expected[1].numpy())
    np.testing.assert_array_equal(results["p_weight"], expected[2].detach().numpy())


def test_run_checks_what_the_model_promises(tenon, tmp_path):
    save(export(Returning(), (torch.ones(3, 4),)), tmp_path / "model.pt2")
    np.save(tmp_path / "x.npy", -np.ones((3, 4), np.float32))
    done = tenon("run", "model.pt2", "-i", "x.npy")
    assert done.code != 0
    assert "cli_models.py:" in done.err
    assert "the first element is not positive" in done.err


def test_run_refuses_a_damaged_file(tenon, tmp_path):
    save(export(Returning(), (torch.ones(3, 4),)), tmp_path / "model.pt2")
    content = (tmp_path / "model.pt2").read_bytes()
    (tmp_path / "half.pt2").write_bytes(content[: len(content) // 2])
    done = tenon("run", "half.pt2")
    assert done.code != 0
    assert "half.pt2: error: not a zip archive" in done.err
