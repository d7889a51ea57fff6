"""What a verdict weighs: which kinds of clues, and what explains some of them as no fault.

Each kind can be left out (``--without``), and of each is counted how often it held and what it
decided (``msprobe-build verdict --explain``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from msprobe_builder.base.kinds import KINDS
from msprobe_builder.verdict.findings import Weighed
from msprobe_builder.verdict.model.clue import THRESHOLD, Clue
from msprobe_builder.verdict.model.places import Spare

Place = Callable[[Clue], tuple[float, bool, float]]


class Weighing:
    """The kinds that were left out, and which clues of one comparison were explained, by what."""

    def __init__(self, without: frozenset[str] = frozenset()) -> None:
        self.without = without
        self._explained: dict[str, dict[Clue, None]] = {}

    def wanted(self, found: Iterable[Clue]) -> list[Clue]:
        """The clues of kinds that were not left out."""
        if not self.without:
            return list(found)
        return [one for one in found if one.cause.word not in self.without]

    def explains(self, kind: str, clue: Clue) -> bool:
        """Whether an explanation that holds of a clue counts; it is kept."""
        if kind in self.without:
            return False
        self._explained.setdefault(kind, {})[clue] = None
        return True

    def weighed(
        self,
        found: Iterable[Clue],
        told: list[Clue],
        place: Place,
        spare: Spare | None = None,
    ) -> tuple[Weighed, ...]:
        """What each kind has done: ``found`` and ``spare`` are all clues, ``told`` what is left.

        What is told of a clue may be of another kind: a maker that puts elements elsewhere.
        """
        first = told[0] if told else None
        told_of = {(one.side, one.node, one.cause) for one in [*found, *told] if _tells(one)}
        fired = Counter(cause for _, _, cause in told_of)
        for more in () if spare is None else spare.columns:
            if len(nodes := more.node[more.score > THRESHOLD]):
                known = [at for side, at, cause in told_of if side == 0 and cause is more.cause]
                either = np.bincount(np.append(nodes, np.array(known, dtype=nodes.dtype)))
                fired[more.cause] += int(np.count_nonzero(either)) - len(known)
        result = []
        for cause, times in fired.items():
            kind = cause.word
            decides = first is not None and first.cause.word == kind
            at = (first.side, first.node) if first is not None and decides else (-1, -1)
            result.append(Weighed(kind, times, int(decides), *at))
        for kind, several in self._explained.items():
            before = sorted(
                (
                    one
                    for one in several
                    if _tells(one) and (first is None or place(one) <= place(first))
                ),
                key=place,
            )
            at = (before[0].side, before[0].node) if before else (-1, -1)
            result.append(Weighed(kind, len(several), len(before), *at))
        return tuple(sorted(result, key=lambda one: KINDS.index(one.kind)))


def _tells(clue: Clue) -> bool:
    return clue.score > THRESHOLD
