"""Dumps that hold checksums alone, as the reference recorder makes of ``summary_mode`` xor."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder import BuildConfig, build
from tests.conftest import REPOSITORY, unpacked
from tests.faults.judging import verdict_on

STATISTICS = ("Max", "Min", "Mean", "Norm")
SCALED = "Tensor.__mul__.19.forward"


@pytest.fixture(scope="module")
def checksums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory, "checksums", REPOSITORY / "tests" / "data" / "checksums")


def _tensors(value: Any) -> list[dict[str, Any]]:
    """All records of tensors in a part of a dump."""
    if isinstance(value, list):
        return [found for one in value for found in _tensors(one)]
    if not isinstance(value, dict):
        return []
    return [value] if "dtype" in value else _tensors(list(value.values()))


def _written(source: Path, folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a step with other records."""
    folder.mkdir()
    for file in source.glob("*.json"):
        content = json.loads(file.read_text(encoding="utf-8"))
        if file.name == "dump.json":
            change(content["data"])
        (folder / file.name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def _without_statistics(data: dict[str, Any]) -> None:
    for tensor in _tensors(data):
        for key in STATISTICS:
            tensor.pop(key, None)


def test_another_argument_behind_equal_checksums_is_a_fault(
    checksums: Path, tmp_path: Path
) -> None:
    runs = checksums / "attention"
    verdict = verdict_on(runs / "npu", runs / "bench", tmp_path)
    first = verdict.suspects[0]
    assert (verdict.conclusion, first.node, first.strength) == ("fault", SCALED, "strong")
    assert "output.0 has another checksum. Argument 1 is 0.53033" in first.evidence
    # Nothing is claimed of its size.
    assert "By how much it is off checksums do not tell." in first.evidence
    assert not first.error
    assert "times what rounding" not in verdict.sentence


def test_modules_whose_checksums_differ_are_not_clean(checksums: Path, tmp_path: Path) -> None:
    runs = checksums / "attention_L0"
    verdict = verdict_on(runs / "npu", runs / "bench", tmp_path)
    first = verdict.suspects[0]
    assert verdict.conclusion == "fault"
    assert first.node == "Module.model.layers.1.self_attn.LlamaAttention.forward.0"


def test_checksums_beside_statistics_taken_away_tell_as_much(dumps: Path, tmp_path: Path) -> None:
    sides = [
        _written(dumps / name / "step0" / "rank", tmp_path / name, _without_statistics)
        for name in ("llama_md5_wrong_attention_scale", "llama_md5")
    ]
    first = verdict_on(sides[0], sides[1], tmp_path / "out").suspects[0]
    assert (first.node, first.strength) == (SCALED, "strong")
    equal = verdict_on(sides[1], sides[1], tmp_path / "equal")
    assert (equal.conclusion, equal.suspects) == ("clean", ())


def test_calls_that_round_otherwise_by_habit_are_not_judged(
    checksums: Path, tmp_path: Path
) -> None:
    bench = checksums / "attention" / "bench"

    def on_another_device(data: dict[str, Any]) -> None:
        """What calls make has other bits; data and weights have the same."""
        made = {
            tensor["md5"]
            for call in data.values()
            for tensor in _tensors([call.get("output"), call.get("input")])
            if tensor["dtype"] == "torch.float32" and isinstance(tensor["md5"], str)
        }
        made -= {one["md5"] for call in data.values() for one in _tensors(call.get("parameters"))}
        for tensor in _tensors(data):
            if tensor.get("md5") in made:
                tensor["md5"] = tensor["md5"][:-4] + "beef"

    npu = _written(bench, tmp_path / "npu", on_another_device)
    verdict = verdict_on(npu, bench, tmp_path / "out")
    assert verdict.conclusion == "undecided"
    assert not [one.node for one in verdict.suspects if one.strength == "strong"]


def test_gradients_that_are_counted_otherwise_are_no_habit(checksums: Path, tmp_path: Path) -> None:
    bench = checksums / "attention" / "bench"

    def without_last_number(data: dict[str, Any]) -> None:
        for name in [one for one in data if one.endswith("parameters_grad.1")]:
            data[name.removesuffix(".1")] = data.pop(name)

    npu = _written(bench, tmp_path / "npu", without_last_number)
    verdict = verdict_on(npu, bench, tmp_path / "out")
    assert (verdict.conclusion, verdict.suspects) == ("clean", ())


def test_a_single_number_in_the_place_of_its_checksum_is_its_value(
    checksums: Path, tmp_path: Path
) -> None:
    bench = checksums / "attention" / "bench"
    written = {
        tensor["md5"]
        for tensor in _tensors(json.loads((bench / "dump.json").read_text(encoding="utf-8")))
        if isinstance(tensor.get("md5"), float)
    }
    assert len(written) > 2  # losses and gradients of them
    path = build(BuildConfig(bench, bench), tmp_path, workers=1).path
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT DISTINCT max, min, mean, norm FROM tensor WHERE norm IS NOT NULL"
        ).fetchall()
    assert set(rows) == {(one, one, one, abs(one)) for one in written}


def test_a_checksum_beside_statistics_compares_what_the_other_side_has_no_statistics_of(
    dumps: Path, tmp_path: Path
) -> None:
    npu = dumps / "llama_md5_wrong_attention_scale" / "step0" / "rank"
    bench = _written(dumps / "llama_md5" / "step0" / "rank", tmp_path / "b", _without_statistics)
    first = verdict_on(npu, bench, tmp_path / "out").suspects[0]
    assert (first.node, first.strength) == (SCALED, "strong")
    assert first.evidence.startswith("The inputs agree, output.0 has another checksum.")
