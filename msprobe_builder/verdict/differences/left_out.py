"""What a dump leaves out of the run: calls, or what they are given or put out.

A recorder leaves calls out when its configuration names those to record, and one half of each when
it names a direction or inputs and outputs. Nothing that was left out agrees or differs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction, Kind, module_path
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class LeftOut:
    """What one of two dumps lacks, or both.

    ``skips`` tells by side whether some calls were left out, ``wholly`` whether all of a kind were.
    """

    skips: tuple[bool, bool] = (False, False)
    wholly: tuple[bool, bool] = (False, False)
    modules: bool = False  # they are known by name alone
    inputs: bool = False
    outputs: bool = False
    forward: bool = False
    gradients: bool = False  # all but those of parameters

    @property
    def calls(self) -> bool:
        """Whether calls between those of the dump were left out."""
        return any(self.skips) or any(self.wholly) or self.modules

    @property
    def is_any(self) -> bool:
        """Whether what is given, or comes of it, may have been made by what nobody recorded."""
        return self.calls or self.inputs or self.outputs or self.forward or self.gradients


def left_out_of(npu: Part, bench: Part) -> LeftOut:
    """What the dumps of two sides lack; of what was put together from ranks nothing is known."""
    parts = npu, bench
    if any(not _has_tensors(part).any() for part in parts):
        return LeftOut()
    kinds = [_kinds(part) for part in parts]
    ways = [_ways(part) for part in parts]
    return LeftOut(
        skips=(_skips_calls(npu), _skips_calls(bench)),
        wholly=(
            kinds[0] < kinds[1] or ways[0] < ways[1],
            kinds[1] < kinds[0] or ways[1] < ways[0],
        ),
        modules=any(
            part.calls.is_module.any() and Kind.MODULE not in found
            for part, found in zip(parts, kinds, strict=True)
        ),
        inputs=any(_lacks(part, Section.INPUT, Section.OUTPUT) for part in parts),
        outputs=any(_lacks(part, Section.OUTPUT, Section.INPUT) for part in parts),
        forward=any(Direction.FORWARD not in found for found in ways),
        gradients=any(
            Direction.BACKWARD not in found and _is_trained(part)
            for part, found in zip(parts, ways, strict=True)
        ),
    )


def _kinds(part: Part) -> set[Kind]:
    """Whether modules have tensors, and other calls."""
    found = part.calls.kind[part.table.node[_has_tensors(part)]]
    return {kind for kind in (Kind.API, Kind.MODULE) if (found == kind).any()}


def _skips_calls(part: Part) -> bool:
    """Whether numbers of calls are missing, which each operator counts from 0 on.

    Modules are counted each on its own: of a dump of modules alone the layers tell.
    """
    calls = part.calls
    known = calls.is_forward_call & (part.tree.record >= 0)  # else the hierarchy alone has it
    if not calls.is_api.any():
        return _skips_layers([calls.stems[stem] for stem in np.unique(calls.stem[calls.is_module])])
    width = int(calls.call.max(initial=0)) + 1
    each = np.unique(calls.stem[known] * width + calls.call[known])  # a number for both
    recorded = np.bincount(each // width, minlength=len(calls.stems))
    most = np.zeros(len(calls.stems), dtype=np.int64)
    np.maximum.at(most, calls.stem[calls.is_api], calls.call[calls.is_api] + 1)
    # An operator of which nothing was recorded is none that the recorder knows, such as a view.
    return bool(np.any((recorded > 0) & (most > recorded)))


_NUMBER = re.compile(r"\.(\d+)(?=\.|\Z)")


def _skips_layers(stems: list[str]) -> bool:
    """Whether the layers begin behind the first, or some in between are missing.

    Lists inside of layers may hold what is called for some data alone, such as experts.
    """
    found: dict[str, set[int]] = {}
    for path in map(module_path, stems):
        if number := _NUMBER.search(path):
            found.setdefault(path[: number.start()], set()).add(int(number[1]))
    return any(max(numbers) + 1 > len(numbers) for numbers in found.values())


def _has_tensors(part: Part) -> Bool:
    table = part.table
    return np.asarray(table.is_tensor & np.isin(table.section, (Section.INPUT, Section.OUTPUT)))


def _lacks(part: Part, section: Section, other: Section) -> bool:
    """Whether no call has tensors of a section, though calls have others."""
    sections = part.table.section[part.table.is_tensor]
    return bool(not (sections == section).any() and (sections == other).any())


def _ways(part: Part) -> set[Direction]:
    """In which directions calls have tensors."""
    found = part.calls.direction[part.table.node[_has_tensors(part)]]
    return {way for way in (Direction.FORWARD, Direction.BACKWARD) if (found == way).any()}


def _is_trained(part: Part) -> bool:
    """Whether gradients are used."""
    is_trained = (part.table.section == Section.PARAMETERS_GRAD).any()
    is_trained |= (part.calls.direction == Direction.BACKWARD).any()
    return bool(is_trained or any(name in _BEHIND for name in part.tree.names))


_BEHIND = ("optimizer", "clip_grad")  # what works with gradients, as recorders name it
