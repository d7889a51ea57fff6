"""Which files hold a tensor of a merged side, and how its parts make up the whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple


class TensorFile(NamedTuple):
    """A file of one rank, by its name in the rank's dump_tensor_data."""

    directory: Path | None
    name: str


@dataclass(frozen=True)
class Assembly:
    """The parts of one tensor, in the order of the ranks.

    Without a ``dimension`` every part holds the whole. Otherwise they are joined along it;
    ``outer`` counts what it holds before the parts (a tensor cut along heads and flattened to
    [batch · heads, …] has the batch there).

    A part may itself be made of ``blocks`` of these relative sizes: of a fused projection each
    rank holds its share of one factor, then its share of the next. The whole has the first block
    of all parts, then the second of all. ``order`` tells otherwise: part and block, one after the
    other. ``other_blocks`` are further possibilities where nothing recorded decides.
    """

    parts: tuple[TensorFile | Assembly, ...]
    dimension: int | None = None
    outer: int = 1
    blocks: tuple[int, ...] = (1,)
    order: tuple[tuple[int, int], ...] = ()
    other_blocks: tuple[tuple[int, ...], ...] = ()

    def sequence(self) -> Sequence[tuple[int, int]]:
        """Part and block of each piece of the whole in order."""
        if self.order:
            return self.order
        places = range(len(self.parts))
        return [(part, block) for block in range(len(self.blocks)) for part in places]


def whole_file(directory: Path | None, name: str) -> Assembly:
    """A tensor that lies in one file."""
    return Assembly((TensorFile(directory, name),))


def to_text(assembly: Assembly, number: dict[Path | None, int]) -> str:
    """An assembly as JSON; directories get numbers, new ones are added to ``number``."""
    return json.dumps(_to_json(assembly, number), separators=(",", ":"))


def _to_json(assembly: Assembly, number: dict[Path | None, int]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "parts": [
            [number.setdefault(part.directory, len(number)), part.name]
            if isinstance(part, TensorFile)
            else _to_json(part, number)
            for part in assembly.parts
        ]
    }
    if assembly.dimension is not None:
        result["dimension"] = assembly.dimension
    for key, value, default in (
        ("outer", assembly.outer, 1),
        ("blocks", assembly.blocks, (1,)),
        ("order", assembly.order, ()),
        ("other_blocks", assembly.other_blocks, ()),
    ):
        if value != default:
            result[key] = value
    return result


def from_text(text: str, directories: dict[int, Path | None]) -> Assembly:
    """What ``to_text`` wrote; ValueError when it is something else."""
    try:
        result = _from_json(json.loads(text), directories)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"{text[:80]!r} describes no tensor") from error
    if not _is_sound(result):
        raise ValueError(f"{text[:80]!r} describes no tensor")
    return result


def _is_sound(assembly: Assembly) -> bool:
    blocks = len(assembly.blocks)
    places = [(part, block) for part in range(len(assembly.parts)) for block in range(blocks)]
    sizes = [assembly.outer, *assembly.blocks, *(one for of in assembly.other_blocks for one in of)]
    return (
        bool(assembly.parts and blocks and all(assembly.other_blocks))
        and min(sizes) > 0
        and sorted(assembly.sequence()) == places
        and all(_is_sound(part) for part in assembly.parts if isinstance(part, Assembly))
    )


def _from_json(value: dict[str, Any], directories: dict[int, Path | None]) -> Assembly:
    dimension = value.get("dimension")
    return Assembly(
        tuple(
            _from_json(part, directories)
            if isinstance(part, dict)
            else TensorFile(directories[part[0]], str(part[1]))
            for part in value["parts"]
        ),
        None if dimension is None else int(dimension),
        int(value.get("outer", 1)),
        tuple(map(int, value.get("blocks", (1,)))),
        tuple((int(part), int(block)) for part, block in value.get("order", ())),
        tuple(tuple(map(int, blocks)) for blocks in value.get("other_blocks", ())),
    )


def joined_shape(shapes: Sequence[Sequence[int]], assembly: Assembly) -> list[int] | None:
    """The shape of the whole, None when parts of these shapes do not fit together."""
    first = list(shapes[0])
    dimension = assembly.dimension
    if dimension is None:
        return first
    if not 0 <= dimension < len(first):
        return None
    for shape in shapes:
        rest = [*shape[:dimension], *shape[dimension + 1 :]]
        if len(shape) != len(first) or rest != [*first[:dimension], *first[dimension + 1 :]]:
            return None
        if shape[dimension] % (assembly.outer * sum(assembly.blocks)):
            return None
    first[dimension] = sum(shape[dimension] for shape in shapes)
    return first if prod(first) == sum(map(prod, shapes)) else None
