"""Programs of another style, over gloo: correct ones are clean, faults are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.programs.catalogue import PROGRAMS
from tests.faults.programs.score import judged, record, score

pytestmark = pytest.mark.slow

# Sequence first: each rank divides a sum by its own count, and words stand in columns; scores that
# stay cut, with functional collectives that name their groups; two splits of layers with names of
# their own, of which two are reduced at once; layers that are recomputed without a module around
# them; experts that get places in a buffer.
FOUND = {
    "own_count_cp2": {"rotary offset": "right node, all ranks strong"},
    "vocab_loss_tp2": {"bias of one rank": "right strong"},
    "tp4_tp2": {
        "vocabulary rows": "right node, all ranks strong",
        "keys for queries": "right node, all ranks weak",
    },
    "interleaved_recompute": {"rotary base of a stage": "right strong"},
    "gshard_ep2": {"expert index": "right strong"},
}


@pytest.fixture(scope="module", params=FOUND)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a program, named after it, with the runs of it."""
    folder = tmp_path_factory.mktemp("programs")
    record(folder, request.param, [*FOUND[request.param]])
    return folder / str(request.param)


@pytest.mark.parametrize("is_found", [False, True], ids=["declared", "found"])
def test_a_correct_program_is_clean(program: Path, is_found: bool) -> None:
    verdict, _, found = judged(program.parent, program.name, "right", is_found)
    assert (verdict.conclusion, verdict.suspects) == ("clean", ())
    assert {one.severity for one in found if one.code == "layout_found"} <= {"info"}


def test_a_fault_is_named(program: Path) -> None:
    faults = {one.name: one for one in PROGRAMS[program.name].faults}
    for name, expected in FOUND[program.name].items():
        verdict, path, _ = judged(program.parent, program.name, name)
        assert score(faults[name], verdict, path) == expected, (name, verdict.sentence)
