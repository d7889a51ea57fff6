"""Layouts to be found in dumps that say too little, or something else than what is declared."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder import build
from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.facts.wording import tell
from msprobe_builder.pipeline.config import read_config
from tests.builder.merge.test_detect import found_in, sizes

Records = dict[str, Any]


def changed(source: Path, target: Path, change: Callable[[Records, int], None]) -> Path:
    """A copy of a dump, each rank's records changed."""
    shutil.copytree(source / "step0", target)
    for rank in target.glob("rank*"):
        path = rank / "dump.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        change(content["data"], int(rank.name[4:]))
        path.write_text(json.dumps(content), encoding="utf-8")
    return target


def objects(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for one in value if isinstance(value, list) else ():
        yield from objects(one)


def without_groups(records: Records, _: int) -> None:
    """As of a tool that names no groups."""
    for one in objects(records):
        if "group_ranks" in one:
            one.clear()


def without_statistics(records: Records, _: int) -> None:
    without_groups(records, 0)
    for one in objects(records):
        for key in ("Max", "Min", "Mean", "Norm"):
            one.pop(key, None)


def drifted(records: Records, rank: int) -> None:
    """A weight of the second replica is not what it was."""
    without_groups(records, rank)
    if rank == 2:
        name = next(name for name in records if ".linear_fc1." in name)
        records[name]["parameters"]["weight"]["Norm"] *= 1.01


def exchanged(records: Records, _: int) -> None:
    """Groups of a run that numbers its ranks otherwise."""
    for one in objects(records):
        if "group_ranks" in one:
            one["group_ranks"] = [(0, 2, 1, 3)[rank] for rank in one["group_ranks"]]


@pytest.mark.parametrize(
    ("name", "declared", "said"),
    [
        ("megatron_tp2pp2", {"tp": 1}, "tp 1 (declared, though the dump tells 2"),
        ("megatron_tp1pp2vpp2", {"vpp": 4}, "vpp 4 (declared, though the dump tells 2"),
        ("context_cp2ring", {"cp": 1}, "cp 1 (declared, though the dump tells 2"),
        ("experts_ep2dp2", {"ep": 1}, "ep 1 (declared, though the dump tells 2"),
        ("megatron_tp2pp2", {"order": "pp-tp-cp-ep-dp"}, "ranks [0, 1], which the declared order"),
    ],
)
def test_what_is_declared_otherwise_wins_with_a_warning(
    dumps: Path, name: str, declared: dict[str, Any], said: str
) -> None:
    found = found_in(dumps / name / "step0", **declared)
    assert not found.is_sure
    assert said in tell(found.said)


@pytest.mark.parametrize(
    ("name", "declared", "said"),
    [
        ("megatron_tp2pp2", {"pp": 4}, r"ranks \[0, 1\] fit into no stage of 1 rank; declare tp"),
        ("megatron_tp2pp2", {"tp": 4}, "is no multiple .* tp 4 .declared."),
        ("moe_tp2ep2etp1", {"etp": 2}, "ep 2 .exchanges .* etp 2 .declared."),
        ("ddp4_statistics", {}, "both run the same modules, and words .* declare pp"),
        ("collectives4_statistics", {}, "same modules, and their weights are equal; declare pp"),
    ],
)
def test_what_fits_no_layout_is_refused(
    dumps: Path, name: str, declared: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        found_in(dumps / name / "step0", **declared)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("context_tp2cp2sp", without_groups, "attention talks .* declare cp"),
        ("megatron_tp2pp1_L0", without_statistics, "neither groups nor statistics .* declare tp"),
        ("context_tp2cp2sp", exchanged, r"over ranks \[0, 2\], which .* declare order"),
    ],
)
def test_what_is_not_recorded_is_refused(
    dumps: Path, tmp_path: Path, name: str, change: Callable[[Records, int], None], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        found_in(changed(dumps / name, tmp_path / "step0", change))


def test_weights_tell_where_groups_are_lacking(dumps: Path, tmp_path: Path) -> None:
    found = found_in(changed(dumps / "megatron_tp2pp2", tmp_path / "step0", without_groups))
    assert sizes(found.layout) == {"tp": 2, "pp": 2}
    assert found.is_sure


def test_a_replica_that_drifted_is_none_the_less(dumps: Path, tmp_path: Path) -> None:
    found = found_in(changed(dumps / "megatron_tp2pp1dp2", tmp_path / "step0", drifted))
    assert sizes(found.layout) == {"tp": 2, "dp": 2}
    assert not found.is_sure
    assert "parts of parallel layers as rank 0" in tell(found.said)


def test_gathered_parameters_are_no_parts_of_a_sequence(dumps: Path) -> None:
    assert sizes(found_in(dumps / "zero3_dp2" / "step0").layout) == {"dp": 2}


@pytest.mark.parametrize(
    ("kept", "rank_size", "error", "said"),
    [
        ((0, 1), None, UsageError, "recorded calls with rank 2, but there are dumps of 2 ranks"),
        ((0, 1, 2), None, UsageError, "3 ranks into no equal stages"),
        ((0, 2), None, BuildError, r"npu_path \S+ lacks rank 1 and has also rank 2"),
        ((0, 1, 2, 3), 8, BuildError, "declares rank_size 8, but npu_path .* correct rank_size"),
        ((0, 1, 2, 3), 2, BuildError, "declares rank_size 2, but npu_path .* has also ranks 2, 3"),
        ((0, 1, 2, 3), "four", UsageError, "'rank_size' is 'four'"),
    ],
)
def test_other_ranks_than_there_were_are_refused(
    dumps: Path,
    tmp_path: Path,
    kept: tuple[int, ...],
    rank_size: object,
    error: type[Exception],
    said: str,
) -> None:
    (tmp_path / "step0").mkdir()
    for rank in kept:
        source = dumps / "megatron_tp2pp2" / "step0" / f"rank{rank}"
        (tmp_path / "step0" / source.name).symlink_to(source)
    side = {"tp": "auto", "pp": "auto"} | ({} if rank_size is None else {"rank_size": rank_size})
    path = tmp_path / "compare.json"
    request = {"npu_path": str(tmp_path / "step0"), "parallel_merge": {"npu": side}}
    path.write_text(json.dumps(request), encoding="utf-8")
    with pytest.raises(error, match=said):
        build(read_config(path), tmp_path / "out", workers=1)
