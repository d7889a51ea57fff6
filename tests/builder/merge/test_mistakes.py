"""What parallel_merge says of layouts and rank directories that do not fit: one sentence each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder.command.main import main
from tests.builder.integrity import is_one_sentence
from tests.builder.small_dumps import forward, tensor, write_dump

TP2: dict[str, Any] = {"rank_size": 2, "tp": 2, "pp": 1}
NO_SIZES: list[Any] = [0, -1, 1.5, 2.0, "2", "", True, False, [2], {}]
WHOLE = "it must be a whole number above 0"


def attempt(folder: Path, config: Any, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit status and error text of a build that must not leave anything."""
    path = folder / "compare.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    status = main(["-i", str(path), "-o", str(folder / "out"), "--quiet"])
    said = capsys.readouterr().err.strip()
    assert not list(folder.glob("out/*")) or status == 0
    return status, said


def write_ranks(folder: Path, *names: str) -> Path:
    for name in names:
        write_dump(folder / name, {"Torch.add.0.forward": forward([tensor(1)], [tensor(2)])})
    return folder


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        *(
            ({key: value}, f"'{key}' is {value!r}; {WHOLE}")
            for key in ("rank_size", "tp", "pp", "vpp")
            for value in NO_SIZES
        ),
        *(({key: None}, f"lacks '{key}'") for key in ("rank_size", "tp", "pp")),
        ({"tp": 3}, "rank_size 2 is no multiple of"),
        ({"pp": 2}, "rank_size 2 is no multiple of"),
        ({"tp": 10**30}, "rank_size 2 is no multiple of"),
        ({"vpp": 2}, "vpp 2 needs pp of 2 or more"),
        ({"TP": 2}, "unknown key 'TP'"),
        ({"ranksize": 2}, "unknown key 'ranksize'; did you mean 'rank_size'"),
        ({"order": ""}, "unknown word ''"),
        ({"order": "tp_dp_pp"}, "unknown word 'tp_dp_pp'"),
        ({"order": "tp - pp"}, "unknown word 'tp '"),
        ({"order": "TP-PP"}, "unknown word 'TP'"),
        ({"order": "tp-dp-pp-xp"}, "unknown word 'xp'"),
        ({"order": "tp-pp-tp"}, "names 'tp' twice"),
        ({"order": "pp-dp"}, "lacks 'tp', which is 2"),
        ({"order": ["tp", "pp"]}, "'order' must be text"),
        ({"order": 1}, "'order' must be text"),
    ],
    ids=str,
)
def test_layouts(
    change: dict[str, Any], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = write_ranks(tmp_path / "ranks", "rank0", "rank1")
    merge = {"npu": {**TP2, **change}}
    status, said = attempt(tmp_path, {"npu_path": str(ranks), "parallel_merge": merge}, capsys)
    assert status == 2
    assert sentence in said
    assert "parallel_merge.npu" in said
    assert is_one_sentence(said.replace("?", "."))


@pytest.mark.parametrize(
    ("merge", "with_bench", "sentence"),
    [
        ([], False, 'must be "auto", or an object'),
        ("tp2", False, 'must be "auto", or an object'),
        (True, False, 'must be "auto", or an object'),
        ({}, False, "lacks 'npu'"),
        ({"bench": TP2}, False, "lacks 'npu'"),
        ({"bench": TP2}, True, "lacks 'npu'"),
        ({"npu": TP2}, True, "lacks 'bench'"),
        ({"npu": TP2, "bench": TP2}, False, "has 'bench' without a bench_path"),
        ({"npu": TP2, "gpu": TP2}, True, "with the keys 'npu' and, to compare, 'bench'"),
        ({"npu": [2, 2, 1]}, False, "parallel_merge.npu must be an object"),
        ({"npu": None}, False, "parallel_merge.npu must be an object"),
    ],
    ids=str,
)
def test_sides(
    merge: Any,
    with_bench: bool,
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ranks = str(write_ranks(tmp_path / "ranks", "rank0", "rank1"))
    config = {"npu_path": ranks, "parallel_merge": merge}
    config |= {"bench_path": ranks} if with_bench else {}
    status, said = attempt(tmp_path, config, capsys)
    assert status == 2
    assert sentence in said
    assert is_one_sentence(said)


@pytest.mark.parametrize(
    ("names", "change", "sentence"),
    [
        (["rank_0", "rank_1"], {}, "holds no dump; give a directory with dump.json in it"),
        (["rank00", "rank01"], {}, "holds no dump"),
        (["0", "1"], {}, "holds no dump"),
        (["rank0", "rank_1"], {}, "lacks rank 1 in step 0; correct rank_size, or give directories"),
        (["rank0", "rank_1"], {}, "(rank_1 has no such name)"),
        (["rank0", "rank2"], {}, "lacks rank 1 and has also rank 2 in step 0"),
        (["rank1", "rank2"], {}, "lacks rank 0 and has also rank 2 in step 0"),
        (["rank0", "rank1", "rank2"], {}, "has also rank 2 in step 0"),
        (["rank0"], {}, "lacks rank 1 in step 0"),
        (["rank0"], {"rank_size": 64, "tp": 64}, "lacks ranks 1, 2, 3, 4, 5, 6, 7, 8 and 55 more"),
        (["rank0", "rank1"], {"rank_size": 10**12}, "and 999,999,999,990 more in step 0"),
        (["rank", "rank0"], {}, "are both rank 0 of step 0"),
        (["step0/rank0", "step0/rank1", "step1/rank0"], {}, "lacks rank 1 in step 1"),
        (["step0/rank0", "step1/rank0", "step1/rank1"], {}, "lacks rank 1 in step 0"),
    ],
    ids=str,
)
def test_rank_directories(
    names: list[str],
    change: dict[str, Any],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ranks = write_ranks(tmp_path / "ranks", *names)
    config = {"npu_path": str(ranks), "parallel_merge": {"npu": {**TP2, **change}}}
    status, said = attempt(tmp_path, config, capsys)
    assert status == 1
    assert sentence in said
    assert is_one_sentence(said)


@pytest.mark.parametrize("names", [("rank", "rank1"), ("rank0", "rank1", "notes")])
def test_rank_directories_that_fit(
    names: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = write_ranks(tmp_path / "ranks", *names)
    config = {"npu_path": str(ranks), "parallel_merge": {"npu": TP2}}
    assert attempt(tmp_path, config, capsys) == (0, "")


def test_steps_must_be_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    npu = write_ranks(tmp_path / "npu", "step0/rank0", "step1/rank0")
    bench = write_ranks(tmp_path / "bench", "step0/rank0")
    one = {"rank_size": 1, "tp": 1, "pp": 1}
    config: dict[str, Any] = {"npu_path": str(npu), "bench_path": str(bench)}
    config |= {"parallel_merge": {"npu": one, "bench": one}}
    status, said = attempt(tmp_path, config, capsys)
    assert status == 1
    assert "holds steps [0, 1] and bench_path" in said
    assert is_one_sentence(said)
