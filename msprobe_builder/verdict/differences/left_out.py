"""What a dump leaves out of the run: calls, or what they are given or put out.

A recorder leaves calls out when its configuration names those to record, and one half of each when
it names a direction or inputs and outputs. Nothing that was left out agrees or differs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part


@dataclass(frozen=True)
class LeftOut:
    """What one of two dumps lacks, or both.

    ``skips`` tells by side whether some calls were left out, ``kinds`` and ``ways`` of which kinds
    and directions all were that the other side has.
    """

    skips: tuple[bool, bool] = (False, False)
    kinds: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    ways: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    modules: bool = False  # they are known by name alone
    inputs: bool = False
    outputs: bool = False
    forward: bool = False
    gradients: bool = False  # all but those of parameters

    @property
    def calls(self) -> bool:
        """Whether calls between those of the dump were left out."""
        return any(self.skips) or any(self.kinds) or self.modules

    @property
    def is_filtered(self) -> bool:
        """Whether a filter left something out; without a backward pass a run may have ended."""
        return self.calls or self.inputs or self.outputs or self.forward or self.gradients


def left_out_of(npu: Part, bench: Part) -> LeftOut:
    """What the dumps of two sides lack; of what was put together from ranks nothing is known."""
    parts = npu, bench
    held = [_held(part) for part in parts]
    kinds = [{kind for kind, _, section in one if section in _ENDS} for one in held]
    ways = [{way for _, way, section in one if section in _ENDS} & _WAYS for one in held]
    sections = [{section for _, _, section in one} for one in held]
    if not all(kinds):
        return LeftOut()
    kinds = [one & {Kind.API, Kind.MODULE} for one in kinds]
    return LeftOut(
        skips=(_skips_calls(npu), _skips_calls(bench)),
        kinds=(frozenset(kinds[1] - kinds[0]), frozenset(kinds[0] - kinds[1])),
        ways=(frozenset(ways[1] - ways[0]), frozenset(ways[0] - ways[1])),
        modules=any(
            part.calls.is_module[1:].any() and Kind.MODULE not in found
            for part, found in zip(parts, kinds, strict=True)
        ),
        inputs=any(Section.INPUT not in one and Section.OUTPUT in one for one in sections),
        outputs=any(Section.OUTPUT not in one and Section.INPUT in one for one in sections),
        forward=any(Direction.FORWARD not in found for found in ways),
        gradients=any(
            Direction.BACKWARD not in found and _is_trained(part)
            for part, found in zip(parts, ways, strict=True)
        ),
    )


_ENDS = (Section.INPUT, Section.OUTPUT)
_WAYS = {Direction.FORWARD, Direction.BACKWARD}


def _held(part: Part) -> set[tuple[int, int, int]]:
    """Of which kind, direction and section there are tensors."""
    calls, table = part.calls, part.table
    of_node = calls.kind.astype(np.int64) * _MOST + calls.direction
    found = np.bincount((of_node[table.node] * _MOST + table.section)[table.is_tensor])
    numbers = np.flatnonzero(found).tolist()
    return {(one // _MOST**2, one // _MOST % _MOST, one % _MOST) for one in numbers}


_MOST = 8  # kinds, directions and sections are fewer


def _skips_calls(part: Part) -> bool:
    """Whether numbers of calls are missing, which each operator counts from 0 on.

    Modules are counted each on its own, so that they tell nothing.
    """
    calls = part.calls
    known = calls.is_forward_call & (part.tree.record >= 0)  # else the hierarchy alone has it
    if not calls.is_api.any():
        return False
    most = np.zeros(len(calls.stems), dtype=np.int64)
    np.maximum.at(most, calls.stem[calls.is_api], calls.call[calls.is_api] + 1)
    times = np.bincount(calls.stem[known], minlength=len(most))
    # An operator of which nothing was recorded is none that the recorder knows, such as a view.
    if np.any((times > 0) & (most > times)):
        return True
    most[times == 0] = 0
    first = np.cumsum(most) - most  # there are no more numbers than calls
    is_there = np.zeros(int(most.sum()), dtype=bool)
    is_there[first[calls.stem[known]] + calls.call[known]] = True
    return not is_there.all()


def _is_trained(part: Part) -> bool:
    """Whether gradients are used."""
    is_trained = (part.table.section == Section.PARAMETERS_GRAD).any()
    is_trained |= (part.calls.direction == Direction.BACKWARD).any()
    return bool(is_trained or not _BEHIND.isdisjoint(part.calls.stems))


_BEHIND = frozenset({"optimizer", "clip_grad"})  # what works with gradients, as recorders name it
