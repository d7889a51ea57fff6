"""Where modules sit and what calls do, independent of class names and frameworks."""

from __future__ import annotations

from typing import NamedTuple

from msprobe_builder.dump.names import Direction, Kind, Name, parse_gradients

Path = tuple[str, ...]


class Place(NamedTuple):
    """A module call without its class: ``Module.a.b.Linear.forward.1`` is call 1 at ``a.b``."""

    path: Path
    direction: Direction  # NONE for the gradients of the module's parameters
    call: int


def place_of(name: Name) -> Place | None:
    """Place of a module call or of parameter gradients, None for everything else."""
    if name.kind is not Kind.MODULE:
        return None
    stem, call = name.stem, name.call
    if name.direction is Direction.NONE:
        gradients = parse_gradients(stem)
        if gradients is None:
            return None
        stem, call = gradients[0], gradients[1] or 0
    return Place(tuple(stem.split(".")[1:-1]), name.direction, call)


def class_of(name: Name) -> str:
    """Class of a module call."""
    return name.stem.rpartition(".")[2]
