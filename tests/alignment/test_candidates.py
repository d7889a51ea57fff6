"""Whoever has no partner is offered the right one, as the truth of real pairs has it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from msprobe_builder.base.options import DEFAULT_OPTIONS
from tests.alignment.respell import recording
from tests.alignment.score import matched, misses
from tests.alignment.test_real_pairs import KINDS, LIBRARIES, PAIRS, UNTOLD, rank

OTHER_WEIGHTS = "pairs with other weights"
NAMED = [(name, kind) for kind in KINDS for name in (*PAIRS, *LIBRARIES)]
CASES = [(name, OTHER_WEIGHTS) for name in LIBRARIES] + [
    one for one in NAMED if one not in UNTOLD and one[1] != "pairs of modules alone"
]


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_the_right_partner_comes_first_among_those_offered(
    pairs: Path, case: tuple[str, str]
) -> None:
    """Those that have another one first, or none, are counted in misses.yaml."""
    name, kind = case
    side = "npu_other_weights" if kind == OTHER_WEIGHTS else "npu"
    change = KINDS.get(kind, KINDS["pairs"])
    npu, bench = (change(recording(rank(pairs / name / one))) for one in (side, "bench"))
    left, right, matching = matched(npu.source(), bench.source(), DEFAULT_OPTIONS)
    truth = json.loads((pairs / name / "truth.json").read_text("utf-8"))["pairs"]
    grouped = {node for group in matching.groups for node in group.npu}
    taken = {*matching.npu.tolist(), *(one for group in matching.groups for one in group.bench)}
    number = {one: node for node, one in enumerate(left.tree.names)}
    other = {one: node for node, one in enumerate(right.tree.names)}
    first, lacking = 0, 0
    for one, partner in truth.items():
        node, wanted = number.get(one, -1), other.get(partner, -1)
        if node < 0 or wanted in taken or matching.npu[node] >= 0 or node in grouped:
            continue
        rows = np.flatnonzero(matching.npu_likely.node == node)
        offered = matching.npu_likely.candidate[rows].tolist()
        first += offered[:1] != [wanted]
        lacking += wanted not in offered
    most = misses("candidates").get(kind, {}).get(name, (0, 0))
    assert first <= most[0]
    assert lacking <= most[1]
