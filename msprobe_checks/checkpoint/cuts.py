"""How Megatron cuts parameters over ranks, and what the numbers in their names mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from msprobe_builder.base.errors import BuildError
from msprobe_checks.checkpoint.parameter import Parameter

if TYPE_CHECKING:
    import torch


class Cut(Enum):
    """Along which dimension tensor-parallel ranks hold parts of a parameter."""

    NONE = "none"
    COLUMN = "column"  # the first dimension, with the bias
    ROW = "row"  # the second dimension; the bias is whole


# Modules by the last words of their names: Megatron core, then what came before it.
_COLUMN = re.compile(
    r"(linear_qkv|linear_q|linear_kv|linear_q_proj|linear_q_up_proj|linear_kv_up_proj|linear_fc1"
    r"|word_embeddings|word_embeddings_for_head|output_layer|lm_head"
    r"|query_key_value|query|key_value|dense_h_to_4h)\.(weight\d*|bias\d*)\Z"
)
_ROW = re.compile(
    r"(linear_proj|linear_fc2|(self_|inter_|core_)?attention\.dense|dense_4h_to_h)\.weight\d*\Z"
)
_LAYER = re.compile(r"((?:^|.*?\.)layers)\.(\d{1,6})\.")
_EXPERT = re.compile(r"(.*\.experts\.local_experts)\.(\d{1,6})\.(.*)\Z")
_GROUPED = re.compile(r"(.*\.experts)\.(linear_fc[12])\.(weight|bias)(\d{1,6})\Z")
_FUSED = re.compile(r"(.*\.experts)\.weight([12])\Z")


def cut_of(name: str, parameter: Parameter) -> Cut:
    """How ranks share a parameter, by its module."""
    if _COLUMN.search(name):
        return Cut.COLUMN
    if _ROW.search(name) and len(parameter.shape) == 2:
        return Cut.ROW
    return Cut.NONE


def is_gated(name: str, parameter: Parameter, beside: Mapping[str, Parameter]) -> bool:
    """Whether a first layer holds a gate and the other factor: twice what the second one takes."""
    for first, second in (("linear_fc1", "linear_fc2"), ("dense_h_to_4h", "dense_4h_to_h")):
        if f"{first}." in name:
            stem = name[: name.index(f"{first}.")]
            other = beside.get(f"{stem}{second}.weight")
            return other is not None and parameter.shape[0] == 2 * other.shape[1]
    return False


def layer_of(name: str) -> tuple[str, int] | None:
    """The list of layers and the place in it, None for what stands outside of layers."""
    found = _LAYER.match(name)
    return (found[1], int(found[2])) if found else None


def with_layer(name: str, number: int) -> str:
    """The name in another layer."""
    return _LAYER.sub(lambda found: f"{found[1]}.{number}.", name, count=1)


def expert_of(name: str) -> tuple[str, int] | None:
    """The list of experts and the place in it."""
    found = _EXPERT.match(name)
    return (found[1], int(found[2])) if found else None


def with_expert(name: str, number: int) -> str:
    """The name of another expert's parameter."""
    return _EXPERT.sub(lambda found: f"{found[1]}.{number}.{found[3]}", name)


def experts_apart(own: Mapping[str, Parameter], local: int) -> dict[str, Parameter]:
    """The parameters of one rank with a name for each expert, however they are stored.

    Grouped layers have ``linear_fc1.weight3``; older ones hold all experts of a rank in one matrix
    of (inputs, experts · outputs) or (experts · inputs, outputs).
    """
    result: dict[str, Parameter] = {}
    for name, parameter in own.items():
        if found := _GROUPED.match(name):
            name = f"{found[1]}.local_experts.{found[4]}.{found[2]}.{found[3]}"
        elif (found := _FUSED.match(name)) and local > 0 and len(parameter.shape) == 2:
            for expert in range(local):
                layer = f"{found[1]}.local_experts.{expert}.linear_fc{found[2]}.weight"
                result[layer] = _one_expert(parameter, found[2] == "1", expert, local)
            continue
        result[name] = parameter
    return result


def _one_expert(fused: Parameter, is_first: bool, expert: int, count: int) -> Parameter:
    rows, columns = fused.shape
    if (columns if is_first else rows) % count:
        raise BuildError(
            f"A fused weight of {rows:,} rows and {columns:,} columns does not divide into the"
            f" {count:,} experts that num_experts says; check the arguments in the checkpoint."
        )
    shape = (columns // count, rows) if is_first else (columns, rows // count)
    return Parameter(shape, fused.dtype, partial(_load_expert, fused, is_first, expert, count))


def _load_expert(fused: Parameter, is_first: bool, expert: int, count: int) -> torch.Tensor:
    """A first layer is viewed as (experts, inputs, outputs), as is a second one."""
    tensor = fused.load()
    rows, columns = tensor.shape
    view = (
        tensor.view(count, rows, columns // count)
        if is_first
        else tensor.view(count, rows // count, columns)
    )
    return view[expert].T
