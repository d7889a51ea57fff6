"""The reference recorded twice tells what may differ without a fault."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.command.main import main
from msprobe_builder.pipeline.config import read_config
from tests.builder.small_dumps import Record, forward, tensor, write_dump


def scaled(norm: float, factor: float) -> Record:
    return tensor(norm * factor, high=norm / 2 * factor, low=-norm / 3 * factor)


def run(error: float) -> dict[str, Record]:
    """relu → mul → tanh; what the product puts out is off by the fraction ``error``."""
    product, last = scaled(3.0, 1 + error), scaled(5.0, 1 + error)
    return {
        "Functional.relu.0.forward": forward([scaled(7.0, 1)], [scaled(2.0, 1)]),
        "Tensor.__mul__.0.forward": forward([scaled(2.0, 1)], [product]),
        "Torch.tanh.0.forward": forward([product], [last]),
    }


def asked(folder: Path, **config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "compare.json"
    path.write_text(json.dumps({"is_print_compare_log": False, **config}), encoding="utf-8")
    return path


def verdict(folder: Path, capsys: pytest.CaptureFixture[str], **sides: Path) -> dict[str, Any]:
    """The verdict of the command on these directories."""
    paths = {f"{name}_path": str(path) for name, path in sides.items()}
    out = folder / "out"
    status = main(["-i", str(asked(folder, **paths)), "-o", str(out), "--output-name", "x.vis.db"])
    assert status == 0
    capsys.readouterr()
    assert main(["verdict", str(out / "x.vis.db"), "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


@pytest.mark.parametrize(
    ("error", "noise", "conclusion"),
    [
        (0.05, None, "fault"),  # far from rounding
        (0.05, 0.02, "clean"),  # but a second run differs nearly as much
        (0.05, 1e-6, "fault"),
        (2.0, 0.02, "fault"),  # more than 24 times what noise does twice over
    ],
)
def test_what_a_second_run_differs_by_is_no_fault(
    error: float,
    noise: float | None,
    conclusion: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sides = {
        "npu": write_dump(tmp_path / "npu", run(error)),
        "bench": write_dump(tmp_path / "bench", run(0.0)),
    }
    if noise is not None:
        sides["noise"] = write_dump(tmp_path / "noise", run(noise))
    assert verdict(tmp_path / "build", capsys, **sides)["conclusion"] == conclusion


def test_the_noise_of_one_operator_excuses_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noisy = run(0.0)
    noisy["Torch.tanh.0.forward"]["output"] = [scaled(5.0, 1.05)]
    answer = verdict(
        tmp_path / "build",
        capsys,
        npu=write_dump(tmp_path / "npu", run(0.05)),
        bench=write_dump(tmp_path / "bench", run(0.0)),
        noise=write_dump(tmp_path / "noise", noisy),
    )
    assert answer["suspects"][0]["node"] == "Tensor.__mul__.0.forward"
    assert answer["suspects"][0]["strength"] == "strong"


def test_merged_ranks_take_a_second_run_of_the_same_split(dumps: Path, tmp_path: Path) -> None:
    split = {"rank_size": 2, "tp": 2, "pp": 1}
    one = {"rank_size": 1, "tp": 1, "pp": 1}
    source = dumps / "megatron_tp1pp1" / "step0"
    for name in ("bench", "noise"):
        shutil.copytree(source, tmp_path / name / "step0")
    config = asked(
        tmp_path,
        npu_path=str(dumps / "megatron_tp2pp1"),
        bench_path=str(tmp_path / "bench"),
        noise_path=str(tmp_path / "noise"),
        parallel_merge={"npu": split, "bench": one},
    )
    result = build(read_config(config), tmp_path / "out", workers=1)
    assert not any(found.code == "missing_noise" for found in result.diagnostics)


def test_a_step_without_a_second_run_is_told(tmp_path: Path) -> None:
    for name in ("npu", "bench", "noise"):
        for step in (0, 1):
            write_dump(tmp_path / name / f"step{step}" / "rank0", run(0.0))
    shutil.rmtree(tmp_path / "noise" / "step1")
    config = BuildConfig(tmp_path / "npu", tmp_path / "bench", noise_path=tmp_path / "noise")
    result = build(config, tmp_path / "out", workers=1)
    [found] = [one for one in result.diagnostics if one.code == "missing_noise"]
    assert "step 1 rank 0" in found.message


def failure(folder: Path, capsys: pytest.CaptureFixture[str], **config: Any) -> tuple[int, str]:
    status = main(["-i", str(asked(folder, **config)), "-o", str(folder / "out")])
    said = capsys.readouterr().err
    assert not list(folder.glob("out/*.vis.db"))
    return status, said


def test_what_is_wrong_with_it_is_said_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    npu = str(write_dump(tmp_path / "npu" / "step0" / "rank0", run(0.0)).parent.parent)
    both = {"npu_path": npu, "bench_path": npu}
    status, said = failure(tmp_path, capsys, npu_path=npu, noise_path=npu)
    assert (status, "without a 'bench_path'" in said) == (2, True)
    status, said = failure(tmp_path, capsys, **both, noise_path=str(tmp_path / "nowhere"))
    assert status != 0
    assert "noise_path" in said
    assert "nowhere" in said
    status, said = failure(tmp_path, capsys, **both, noise_path=7)
    assert (status, "'noise_path' must be the path" in said) == (2, True)


def test_a_second_run_of_other_steps_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, steps in (("npu", (0, 1)), ("noise", (5, 6))):
        for step in steps:
            write_dump(tmp_path / name / f"step{step}" / "rank0", run(0.0))
    paths = {f"{side}_path": str(tmp_path / "npu") for side in ("npu", "bench")}
    status, said = failure(tmp_path, capsys, **paths, noise_path=str(tmp_path / "noise"))
    assert (status, "none of the steps and ranks" in said) == (1, True)


def test_a_second_run_of_another_task_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    npu = str(write_dump(tmp_path / "npu", run(0.0)))
    noise = str(write_dump(tmp_path / "noise", run(0.0), task="structure"))
    status, said = failure(tmp_path, capsys, npu_path=npu, bench_path=npu, noise_path=noise)
    assert status != 0
    assert "of task structure" in said
