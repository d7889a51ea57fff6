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


class Order(NamedTuple):
    """In which order the elements of the parts make up the whole along the cut dimension.

    Each part is made of ``blocks`` of these relative sizes: of a fused projection a rank holds its
    share of one factor, then its share of the next. The whole has the first block of all parts,
    then the second of all, unless ``pieces`` tell otherwise: part and block, one after the other.
    """

    blocks: tuple[int, ...] = (1,)
    pieces: tuple[tuple[int, int], ...] = ()

    def sequence(self, parts: int) -> Sequence[tuple[int, int]]:
        """Part and block of each piece of the whole in order."""
        if self.pieces:
            return self.pieces
        return [(part, block) for block in range(len(self.blocks)) for part in range(parts)]


PLAIN = Order()


@dataclass(frozen=True)
class Assembly:
    """The parts of one tensor, in the order of the ranks.

    Without a ``dimension`` every part holds the whole. Otherwise they are joined along it;
    ``outer`` counts what it holds before the parts (a tensor cut along heads and flattened to
    [batch · heads, …] has the batch there). There are several ``orders`` where nothing recorded
    decides between them.
    """

    parts: tuple[TensorFile | Assembly, ...]
    dimension: int | None = None
    outer: int = 1
    orders: tuple[Order, ...] = (PLAIN,)


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
    if assembly.outer > 1:
        result["outer"] = assembly.outer
    if assembly.orders != (PLAIN,):
        result["orders"] = [[order.blocks, order.pieces] for order in assembly.orders]
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
    return (
        bool(assembly.parts and assembly.orders)
        and assembly.outer > 0
        and all(_is_sound_order(order, len(assembly.parts)) for order in assembly.orders)
        and all(_is_sound(part) for part in assembly.parts if isinstance(part, Assembly))
    )


def _is_sound_order(order: Order, parts: int) -> bool:
    places = [(part, block) for part in range(parts) for block in range(len(order.blocks))]
    return min(order.blocks, default=0) > 0 and sorted(order.sequence(parts)) == places


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
        tuple(
            Order(tuple(map(int, blocks)), tuple((int(part), int(block)) for part, block in pieces))
            for blocks, pieces in value.get("orders", [PLAIN])
        ),
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
        if any(shape[dimension] % (assembly.outer * sum(one.blocks)) for one in assembly.orders):
            return None
    first[dimension] = sum(shape[dimension] for shape in shapes)
    return first if prod(first) == sum(map(prod, shapes)) else None
