"""The grammar of dump names.

::

    module = ("Module" | "Cell") "." path "." class "." ("forward" | "backward") "." call
    api    = prefix "." operator "." call "." ("forward" | "backward")

Anything else (``optimizer``, ``….parameters_grad``, the root) has neither direction nor call.
"""

from __future__ import annotations

import re
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from msprobe_builder.base.codes import Direction as Direction
from msprobe_builder.base.codes import Kind as Kind
from msprobe_builder.operators.prefixes import COLUMNS
from msprobe_builder.operators.prefixes import MODULES as MODULES

ROOT = "DefaultModel"
COLLECTION = "Apis_Between_Modules"
PEER_COLLECTION = "Communication_Between_Stages"  # in merged models

API_PREFIXES = frozenset(COLUMNS)

# Attributes in which wrappers keep the model.
_WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}

_DIRECTIONS = {"forward": Direction.FORWARD, "backward": Direction.BACKWARD}
CALL = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")
_PEER_COLLECTION = re.compile(rf"{PEER_COLLECTION}\.(?:0|[1-9][0-9]{{0,8}})\Z")
_GRADIENTS = re.compile(
    r"(?P<module>.+)\.parameters_grad(?:\.(?P<call>0|[1-9][0-9]{0,8}))?\Z", re.S
)


def without_wrappers(path: str) -> str:
    """A path of a module or a parameter in the model, whatever wraps the model."""
    return ".".join(part for part in path.split(".") if part not in _WRAPPERS)


class Name(NamedTuple):
    """A dump name taken apart; ``stem`` is the whole name when ``direction`` is none."""

    kind: Kind
    stem: str
    direction: Direction
    call: int


_REMEMBERED = 1 << 15


@lru_cache(maxsize=_REMEMBERED)  # ranks of one model have mostly the same names
def parse_name(name: str) -> Name:
    """Take ``name`` apart; never fails, an unknown form is a module without a call number."""
    parts = name.rsplit(".", 2)
    if len(parts) == 3:
        stem, middle, last = parts
        if last in _DIRECTIONS and CALL.match(middle) and stem.partition(".")[0] not in MODULES:
            return Name(Kind.API, intern(stem), _DIRECTIONS[last], int(middle))
        if (
            middle in _DIRECTIONS
            and CALL.match(last)
            and stem.partition(".")[0] not in API_PREFIXES
        ):
            return Name(Kind.MODULE, intern(stem), _DIRECTIONS[middle], int(last))
    kind = Kind.API if name.partition(".")[0] in API_PREFIXES else Kind.MODULE
    if _PEER_COLLECTION.match(name):
        kind = Kind.COLLECTION
    return Name(kind, name, Direction.NONE, 0)


def format_name(name: Name) -> str:
    """The inverse of :func:`parse_name`."""
    return name.stem if name.direction is Direction.NONE else format_call(name, name.direction)


def format_call(name: Name, direction: Direction) -> str:
    """The name of the same call, which has a direction, in one of the two directions."""
    word = "forward" if direction is Direction.FORWARD else "backward"
    if name.kind is Kind.API:
        return f"{name.stem}.{name.call}.{word}"
    return f"{name.stem}.{word}.{name.call}"


def module_path(stem: str) -> str:
    """Where a module sits: its stem without the class, ``Module.a.b.Linear`` → ``Module.a.b``."""
    return stem.rpartition(".")[0]


def parse_gradients(name: str) -> tuple[str, int | None] | None:
    """Module stem and optional call number of a parameter-gradient record, else None."""
    found = _GRADIENTS.match(name) if "parameters_grad" in name else None
    if found is None:
        return None
    call = found["call"]
    return found["module"], None if call is None else int(call)


def is_gradients(name: str) -> bool:
    """Whether it is the name of a parameter-gradient record."""
    return "parameters_grad" in name and _GRADIENTS.match(name) is not None
