"""Evidence of drawn programs, and what is asked of its rows."""

from __future__ import annotations

import functools
import math

import numpy as np

from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.model.clue import Evidence
from tests.builder.verdict.columns import compared, evidence_of
from tests.builder.verdict.drawn_programs import drawn_program
from tests.builder.verdict.drawn_ranks import ranks_drawn


@functools.cache
def evidence_drawn(seed: int, mixed: bool | None, calls: int = 30) -> Evidence:
    """All that clues are taken from, of one program: of several ranks without ``mixed``."""
    if mixed is None:
        return ranks_drawn(seed)[0]
    return evidence_of(compared(*drawn_program(seed, calls, mixed=mixed, richly=True)))


def sizes(evidence: Evidence, *sections: Section) -> list[int]:
    """Rows of sections of which the error is known."""
    table = evidence.runs.npu.table
    return [
        row
        for row in np.flatnonzero(table.is_tensor).tolist()
        if table.section[row] in sections and not math.isnan(evidence.seen.size[row])
    ]


def unit_of(evidence: Evidence, row: int) -> float:
    """The rounding unit that counts in a row."""
    runs = evidence.runs
    return float((runs.coarse if runs.is_mixed else runs.fine)[row])
