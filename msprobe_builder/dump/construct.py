"""construct.json: who called whom.

Plain form: ``{child: parent or null}``. Megatron form: the key ``megatron_micro_step_number``
is present and values may be ``[parent or null, micro step]``. The order of the keys is the
order of execution among siblings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.limits import MOST_MICRO_STEPS

_MICRO_STEPS = "megatron_micro_step_number"


@dataclass(frozen=True)
class Construct:
    """Parent of each call in order of execution; ``micro_step`` only in Megatron dumps."""

    parent: dict[str, str | None]
    micro_step: dict[str, int] | None
    micro_steps: int


def read_construct(content: Any, path: Path, names: dict[str, str] | None = None) -> Construct:
    """Construct of a parsed construct.json; BuildError when it holds no hierarchy.

    ``names`` are those that are known: a name stands in many places, and all have one object.
    """
    known = ({} if names is None else names).setdefault
    if not isinstance(content, dict):
        raise BuildError(f"{path} does not hold a JSON object; dump this step again.")
    if not content:
        raise BuildError(
            f"{path} is empty, so there is no module hierarchy to show; "
            "dump again with level L0 or mix."
        )
    if _MICRO_STEPS not in content:
        parent = {
            known(child, child): known(value, value)
            if type(value) is str
            else _no_parent(value, child, path)
            for child, value in content.items()
        }
        return Construct(parent, None, 0)
    highest = content[_MICRO_STEPS]
    if not _is_micro_step(highest):
        raise BuildError(
            f"{path} has {_MICRO_STEPS} = {str(highest)[:40]}, which is no micro-step number "
            f"below {MOST_MICRO_STEPS:,}; "
            "dump this step again."
        )
    parents: dict[str, str | None] = {}
    micro_step: dict[str, int] = {}
    for child, value in content.items():
        if child == _MICRO_STEPS:
            continue
        if isinstance(value, list):
            if len(value) != 2 or not _is_micro_step(value[1]):
                raise _bad(child, path)
            value, micro_step[child] = value
        is_named = type(value) is str
        parents[known(child, child)] = (
            known(value, value) if is_named else _no_parent(value, child, path)
        )
    return Construct(parents, micro_step, highest + 1)


def _no_parent(value: Any, child: str, path: Path) -> str | None:
    """None for that of a call in none; BuildError for what is no name."""
    if value is not None:
        raise _bad(child, path)
    return None


def _is_micro_step(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST_MICRO_STEPS


def _bad(child: str, path: Path) -> BuildError:
    return BuildError(
        f"{path} gives {child[:200]!r} neither a parent nor a parent and a micro-step; "
        "dump this step again."
    )


def construct_path(directory: Path) -> Path:
    """Where the hierarchy of a dump lies."""
    return directory / "construct.json"
