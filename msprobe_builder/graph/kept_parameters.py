"""Calls by which a rank puts parameters together and shares them out again, as FSDP does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.graph.calls import Calls
from msprobe_builder.operators import questions
from msprobe_builder.operators.operator import Kind

_PACKS = "Torch.fsdp_"


def keeps_parameters(calls: Calls, parent: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Calls outside of modules that talk, take memory and view it: around each unit of FSDP.

    What they hand over shows in the modules.
    """
    moves = calls.are(
        lambda one: (
            one.kind is Kind.COLLECTIVE
            or questions.is_uninitialised(one)
            or questions.shapes(one)
            or one.name == "as_strided"
        )
    )
    moves |= calls.of_stems(packs) == 1
    is_inside = calls.is_module[parent] & (calls.direction[parent] != Direction.NONE)  # no root
    return np.asarray(moves & ~is_inside & calls.is_api)


def packs(stem: str) -> bool:
    """Whether it copies parameters or gradients into the buffer of a unit, or out of it."""
    return stem.startswith(_PACKS)
