"""A fault on one rank, and where it must be found."""

from __future__ import annotations

from typing import Any, NamedTuple


class Fault(NamedTuple):
    """``nodes``: parts of names, any of which is right to accuse; ``ranks``: who must be named."""

    name: str
    split: str
    plant: Any  # of a model of native.py by its rank, or a Plant
    nodes: tuple[str, ...]
    ranks: tuple[int, ...]
