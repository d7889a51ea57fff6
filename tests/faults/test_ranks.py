"""Faults of one rank among two are found on that rank, one by one and merged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.ranks import FAULTS, judged, record

OF_ONE_PROCESS = "one"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    for way in (OF_ONE_PROCESS, "tp", "pp", "dp"):
        record(folder, way)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("way", ["tp", "pp"])
def test_a_correct_split_is_clean(way: str, recorded: Path, tmp_path: Path) -> None:
    right, one = (recorded / name / "right" / "dump" / "step0" for name in (way, OF_ONE_PROCESS))
    assert judged(right, one, tmp_path, way).conclusion == "clean"


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.way} {fault.name}")
def test_the_rank_and_the_call_are_named(fault: object, recorded: Path, tmp_path: Path) -> None:
    found = next(one for one in FAULTS if one is fault)
    wrong = recorded / found.way / found.name / "dump" / "step0"
    verdict = judged(wrong, recorded / found.way / "right" / "dump" / "step0", tmp_path / "ranks")
    best = verdict.suspects[0]
    assert best.rank in found.ranks
    with_module = f"{verdict.sentence} {best.node}"
    assert found.node in with_module
    accused = {one.rank for one in verdict.suspects if one.strength == "strong"}
    assert accused <= set(found.ranks)
    if found.is_certain:
        assert verdict.conclusion == "fault"
    if found.merged is not None:
        one = recorded / OF_ONE_PROCESS / "right" / "dump" / "step0"
        merged = judged(wrong, one, tmp_path / "merged", found.way)
        assert merged.conclusion == "fault"
        assert found.merged in f"{merged.sentence} {merged.suspects[0].node}"
