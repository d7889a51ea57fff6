"""Where a process stands among those that share a model: ``dp=0`` instead of a list of ranks."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from typing import Any

from torch.distributed.device_mesh import DeviceMesh

from msprobe_collector.errors import CollectorError

# What Megatron calls its axes; the functions of its module parallel_state.
_MEGATRON = {
    "tp": "get_tensor_model_parallel_rank",
    "pp": "get_pipeline_model_parallel_rank",
    "dp": "get_data_parallel_rank",
    "cp": "get_context_parallel_rank",
    "ep": "get_expert_model_parallel_rank",
}


def stands_at(wanted: Mapping[str, int]) -> bool:
    """Whether this process has these coordinates; CollectorError if one of them is unknown."""
    return all(_coordinate(name) == place for name, place in wanted.items())


def _coordinate(name: str) -> int:
    """From a mesh of devices that has an axis of this name, or from Megatron."""
    names: set[str] = set()
    for one in gc.get_objects():
        if issubclass(type(one), DeviceMesh):
            axes = one.mesh_dim_names or ()
            names.update(axes)
            if name in axes:
                return one.get_local_rank(name)
    state: Any = sys.modules.get("megatron.core.parallel_state")
    if state is not None and name in _MEGATRON:
        return int(getattr(state, _MEGATRON[name])())
    known = sorted(names) or "none"
    raise CollectorError(
        f"--ranks asks for {name}, but this training has no axis of that name (it has {known}); "
        "give the numbers of ranks."
    )
