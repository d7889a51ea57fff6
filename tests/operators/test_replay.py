"""Calls that were saved where they failed, run again elsewhere."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from msprobe_operators import (
    CompareWithCPU,
    NanInfTracker,
    OperatorFailedError,
    compare_for_single_op,
    nan_inf_track_for_single_op,
)
from msprobe_operators.call.saved import SavedCallError, load_call, save_call
from msprobe_operators.command import main
from tests.operators.test_live import kernel, wrong_silu
from tests.processes import run_program


def saved_failure(folder: Path) -> Path:
    mode = CompareWithCPU(verbose=False, dump_error_data=True, output_dir=str(folder))
    with (
        pytest.raises(OperatorFailedError, match="its inputs are in"),
        kernel("silu", wrong_silu),
        mode,
    ):
        torch.nn.functional.silu(torch.linspace(-3, 3, 64))
    return folder / "torch.ops.aten.silu_inputs.pkl"


def test_a_failed_call_is_saved_and_fails_again_until_the_kernel_is_right(tmp_path: Path) -> None:
    file = saved_failure(tmp_path)
    assert (tmp_path / "torch.ops.aten.silu_outputs.pkl").is_file()
    with kernel("silu", wrong_silu):
        correct, args, kwargs, _ = compare_for_single_op(file, torch.ops.aten.silu, 1e-5, 1e-5)
        assert not correct
        assert main(["replay", str(file)]) == 4
    assert torch.equal(args[0], torch.linspace(-3, 3, 64))
    assert kwargs == {}
    correct, _, _, out = compare_for_single_op(file, torch.ops.aten.silu)
    assert correct
    assert torch.equal(out, torch.nn.functional.silu(torch.linspace(-3, 3, 64)))
    assert main(["replay", str(file)]) == 0


def test_what_is_saved_is_what_the_call_was_given_not_what_it_left(tmp_path: Path) -> None:
    mode = NanInfTracker(dump_error_data=True, output_dir=str(tmp_path))
    with pytest.raises(OperatorFailedError), mode:
        torch.full((2,), 100.0).exp_()
    file = tmp_path / "torch.ops.aten.exp__inputs.pkl"
    is_clean, args, _, out = nan_inf_track_for_single_op(file)
    assert not is_clean
    assert torch.isinf(out).all()
    assert load_call(file).args[0].tolist() == [100.0, 100.0]
    assert torch.isinf(args[0]).all()  # what ran now has written to its own copy


def test_a_script_shows_the_difference_with_nothing_but_torch(tmp_path: Path) -> None:
    file = saved_failure(tmp_path)
    script = tmp_path / "single.py"
    assert main(["replay", str(file), "--script", str(script)]) == 0
    done = subprocess.run(
        [sys.executable, "-I", script], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["output 0", "gradient 0"]
    assert "import msprobe" not in script.read_text("utf-8")


@pytest.mark.parametrize("size", [4, 5000])
def test_a_script_of_any_size_gives_the_operands_bit_for_bit(tmp_path: Path, size: int) -> None:
    file, script = tmp_path / "call.pkl", tmp_path / "single.py"
    x = torch.linspace(-1, 1, size).sin()
    save_call(file, torch.ops.aten.mul.Tensor, (x, x), {})
    assert main(["replay", str(file), "--script", str(script)]) == 0
    check = "\nprint(torch.equal(operands('cpu', False)[1][0], torch.linspace(-1, 1, SIZE).sin()))"
    done = run_program(tmp_path, script.read_text("utf-8") + check.replace("SIZE", str(size)))
    assert done.stdout.splitlines()[-1:] == ["True"], done.stderr


class Hostile:
    def __reduce__(self) -> tuple[object, ...]:
        return (Path("ran").touch, ())


def test_files_that_are_no_calls_are_refused_and_run_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pickled.pkl").write_bytes(pickle.dumps({"args": Hostile()}))
    torch.save({"args": Hostile()}, "saved.pkl")
    torch.save({"args": [torch.ones(1)]}, "other.pkl")
    Path("text.pkl").write_text("no call")
    os.mkfifo("pipe.pkl")  # nobody waits for what is at its other end
    for name in ("pickled.pkl", "saved.pkl", "other.pkl", "text.pkl", "missing.pkl", "pipe.pkl"):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with pytest.raises(SavedCallError, match=name):
                load_call(Path(name))
        assert not told
        assert main(["replay", name]) == 1
        assert name in capsys.readouterr().err
    assert not Path("ran").exists()
