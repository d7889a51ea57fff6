"""What the class of a parallel layer says of its parameters and of what enters and leaves it."""

from __future__ import annotations

from typing import NamedTuple

from msprobe_builder.dump.names import Direction, Name, parse_gradients
from msprobe_builder.dump.parameters import Section
from msprobe_builder.merge.flow.dimensions import PER_EXPERT, Cut
from msprobe_builder.merge.flow.share import REPLICA, UNKNOWN, Share, State

LAST = Cut(-1)
# All experts of a rank as one matrix: [hidden, experts · inner] and [experts · inner, hidden].
_GROUPED = {"weight1": Cut(1, PER_EXPERT), "weight2": Cut(0, PER_EXPERT)}


class TalkingProduct(NamedTuple):
    """A product that gathers what it takes in, or reduces what it puts out, within one kernel."""

    inputs: tuple[Cut, Cut]  # of the rows, and of the matrix
    outputs: tuple[State, ...]


# By operator. Of rows [tokens, inputs] and a matrix [inputs, outputs]; what was gathered is put
# out, too.
TALKING_PRODUCTS = {
    "all_gather_mm": TalkingProduct((Cut(0), LAST), (State(Share.SHARD, LAST), REPLICA)),
    "mm_reduce_scatter": TalkingProduct((LAST, Cut(0)), (State(Share.SHARD, Cut(0)),)),
    "mm_all_reduce": TalkingProduct((LAST, Cut(0)), (REPLICA,)),
}


def module_class(name: Name) -> str:
    """The class of a module call or of a module's gradients."""
    return module_stem(name).rpartition(".")[2]


def module_stem(name: Name) -> str:
    """The module of a call or of gradients: ``Module.a.Linear`` of ``….parameters_grad.0``."""
    gradients = parse_gradients(name.stem)
    return gradients[0] if gradients else name.stem


def _is_column(class_name: str) -> bool:
    return "ColumnParallel" in class_name or class_name in ("QKVParallelLinear", "ParallelLMHead")


def parameter_state(class_name: str, parameter: str) -> State:
    """The share of a module's own parameter or of its gradient."""
    is_bias = parameter.rpartition(".")[2].startswith("bias")
    if _is_column(class_name):
        # A fused layer norm's weight is no part of the linear layer.
        return REPLICA if "layer_norm" in parameter else State(Share.SHARD, Cut(0))
    if "RowParallel" in class_name:
        return REPLICA if is_bias else State(Share.SHARD, Cut(1))
    if "VocabParallelEmbedding" in class_name:
        return State(Share.SHARD, Cut(0))
    if "ParallelLinear2D" in class_name:
        return UNKNOWN  # cut along two dimensions, over two groups of ranks
    grouped = _GROUPED.get(parameter.rpartition(".")[2])
    if class_name == "GroupedMLP" and grouped is not None:
        return State(Share.SHARD, grouped)
    return REPLICA


def boundary_state(class_name: str, direction: Direction, section: Section) -> State | None:
    """The share of what enters and leaves a parallel layer, None for other classes.

    In backward the inputs are gradients of outputs and the outputs gradients of inputs.
    """
    backward = direction is Direction.BACKWARD
    entering = (section is Section.INPUT) != backward
    if _is_column(class_name):
        return REPLICA if entering else State(Share.SHARD, LAST)
    if "RowParallel" in class_name:
        return State(Share.SHARD, LAST) if entering else REPLICA
    if "VocabParallelEmbedding" in class_name:
        return REPLICA
    return None
