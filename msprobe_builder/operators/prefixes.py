"""What names of calls and of modules begin with in a dump, and whose names follow."""

from __future__ import annotations

from collections.abc import Mapping

MODULES = frozenset({"Module", "Cell"})
COLLECTIVES = frozenset({"Distributed", "MintDistributed"})
# By prefix the columns of the table in which names are looked up first.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "Aten": ("torch",),
    "Distributed": ("distributed",),
    "Functional": ("torch",),
    "Jit": ("torch",),
    "MindSpeed": ("library", "npu"),
    "Mint": ("torch",),
    "MintDistributed": ("distributed",),
    "MintFunctional": ("torch",),
    "NPU": ("npu", "torch"),
    "Primitive": ("mindspore", "torch"),
    "Tensor": ("torch",),
    "Torch": ("torch",),
    "VF": ("torch",),
}
