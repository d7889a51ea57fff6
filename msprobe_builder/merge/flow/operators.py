"""What calls do to shards, by the name of their function."""

from __future__ import annotations

from msprobe_builder.dump.names import Kind, Name

REDUCTIONS = {
    "all_reduce": (0, 0),  # position of what goes in, of what comes out
    "reduce_scatter_tensor": (1, 0),
    "reduce_scatter_single": (1, 0),  # newer torch calls the same so
    "_reduce_scatter_base": (1, 0),
    "_ReduceFromModelParallelRegion": (0, 0),
    "_ReduceScatterToSequenceParallelRegion": (0, 0),
}
ALL_REDUCTIONS = frozenset({"all_reduce", "_ReduceFromModelParallelRegion"})
GATHERS = ("all_gather_into_tensor", "all_gather_single", "_all_gather_base", "all_gather")
SHRINKING = frozenset(
    "amax amin any all argmax argmin logsumexp max mean min norm prod std sum var".split()
)
# The second argument is a weight [outputs, inputs]; the long names are functions of Megatron.
LINEARS = frozenset(
    {
        "linear",
        "LinearWithFrozenWeight",
        "LinearWithGradAccumulationAndAsyncCommunication",
    }
)
# One product for each expert: rows [tokens, inputs] and weights [experts, inputs, outputs].
GROUPED_PRODUCTS = frozenset(
    {"GroupedGemm", "GMMFunction", "GmmFunction", "npu_gmm", "npu_grouped_matmul", "_grouped_mm"}
)
PRODUCTS = LINEARS | GROUPED_PRODUCTS | {"matmul", "mm", "addmm", "__matmul__", "__rmatmul__"}
ADDING_PRODUCTS = frozenset({"addmm", "addmv", "addbmm", "baddbmm", "addmm_", "baddbmm_"})
PEER_CALLS = frozenset(
    f"Distributed.{name}" for name in ("send", "recv", "isend", "irecv", "batch_isend_irecv")
)
ADDITIONS = frozenset({"add", "add_", "__add__", "__iadd__"})
JOINS = frozenset({"cat", "concat", "concatenate"})
SLICES = frozenset({"__getitem__", "narrow"})
LISTINGS = JOINS | {"split", "chunk", "unbind"}


def operator_of(name: Name) -> str:
    """The bare name of a call's function, nothing for modules."""
    return name.stem.rpartition(".")[2] if name.kind is Kind.API else ""
