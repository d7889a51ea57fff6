"""Faults that were planted after those of ``unseen_cases``, when all of its rules stood."""

from __future__ import annotations

from tests.faults.case import Case, of_all_kinds

FOURTEENTH = [
    Case("sums", "map_above_half", 1, seed=1000),
    Case("sums", "divided_by_all", 0, seed=1001),
    Case("sums", "gate_by_tanh", 2, seed=1002),
    Case("sums", "added_twice", 1, seed=1003),
    Case("sums", "words_by_size", seed=1004),
    Case("levels", "swish_is_relu", 0, seed=1005),
    Case("levels", "squeezed_by_maximum", 1, seed=1006),
    Case("levels", "branch_smaller", 1, seed=1007),
    Case("levels", "level_included", seed=1008),
    Case("levels", "levels_summed", seed=1009),
    Case("memory", "likeness_by_product", seed=1010),
    Case("memory", "sharper", seed=1011),
    Case("memory", "erased_after", seed=1012),
    Case("memory", "read_is_cut", seed=1013),
    Case("memory", "memory_epsilon", seed=1014),
]


def fourteenth() -> list[Case]:
    """Attention by running sums, levels in order, a memory that is written to."""
    return of_all_kinds(FOURTEENTH, ("sums", "levels", "memory"), seed=1020)
