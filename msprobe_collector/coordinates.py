"""Where a process stands among those that share a model: ``dp=0`` instead of a list of ranks."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel

from msprobe_collector.errors import CollectorError
from msprobe_collector.optimizers.parts import is_split

# What Megatron calls its axes; the functions of its module parallel_state.
_MEGATRON = {
    "tp": "get_tensor_model_parallel_rank",
    "pp": "get_pipeline_model_parallel_rank",
    "dp": "get_data_parallel_rank",
    "cp": "get_context_parallel_rank",
    "ep": "get_expert_model_parallel_rank",
}
# Axes along which each rank trains the same parameters on other data, unless they are sharded.
_OF_DATA = ("dp", "dp_replicate", "replicate", "ddp", "data", "cp")


def stands_at(wanted: Mapping[str, int]) -> bool:
    """Whether this process has these coordinates; CollectorError if one of them is unknown."""
    found = coordinates() if wanted else {}
    for name in wanted:
        if name not in found:
            known = sorted(found) or "none"
            raise CollectorError(
                f"--ranks asks for {name}, but this training has no axis of that name (it has"
                f" {known}); give the numbers of ranks."
            )
    return all(found[name] == place for name, place in wanted.items())


def coordinates() -> dict[str, int]:
    """From meshes of devices whose axes have names, and from Megatron; empty where none is."""
    found: dict[str, int] = {}
    state: Any = sys.modules.get("megatron.core.parallel_state")
    for name, function in _MEGATRON.items() if state is not None else ():
        try:
            found[name] = int(getattr(state, function)())
        except (AssertionError, AttributeError, RuntimeError):
            continue  # this version, or this training, has no such axis
    for one in gc.get_objects():
        if issubclass(type(one), DeviceMesh) and one.get_coordinate() is not None:
            for name in one.mesh_dim_names or ():
                found[name] = one.get_local_rank(name)
    return found


def place_of(models: Iterable[nn.Module]) -> dict[str, Any]:
    """``coordinates`` of this process, and the axes along which ranks are ``replicas``.

    Those hold all parameters of the models, whole and the same. Where no axis has a name that of
    DistributedDataParallel is ``dp``.
    """
    found, own, is_flat = _layout(models)
    replicas = [] if is_flat or is_split(own) else _alike_along(found, own)
    return {"coordinates": found, "replicas": replicas}


def _layout(models: Iterable[nn.Module]) -> tuple[dict[str, int], list[nn.Parameter], bool]:
    """Coordinates, parameters, and whether those are laid into one row that is cut."""
    found = coordinates()
    modules = [one for model in models for one in model.modules()]
    for one in modules if not found else ():
        if isinstance(one, DistributedDataParallel):
            group: Any = one.process_group
            found["dp"] = dist.get_rank(group)
            if dist.get_world_size(group) < dist.get_world_size():
                found["group"] = min(dist.get_process_group_ranks(group))
            break
    own = {parameter: "" for one in modules for parameter in one.parameters(recurse=False)}
    is_flat = any(type(one).__name__ == "FullyShardedDataParallel" for one in modules)
    return found, list(own), is_flat


def replicas_of(models: Sequence[nn.Module]) -> tuple[list[int], bool]:
    """The ranks, in order, that hold all parameters of the models as this process does.

    The second is whether that is known; otherwise they are those that may be: all, where no axis
    has a name and nothing is sharded. Empty where there is none but this one.
    """
    if not dist.is_available() or not dist.is_initialized():
        return [], True
    known, own, is_flat = _layout(models)
    if is_flat or any(hasattr(one, "ds_id") for one in own):  # DeepSpeed's stage 3
        return [], True
    axes = _alike_along(known, own)
    if not axes:
        is_whole = not known and not any(hasattr(one, "placements") for one in own)
        return (list(range(dist.get_world_size())), False) if is_whole else ([], True)
    found: list[int] = []
    for group in _groups_along(axes, models):
        if len(group) > len(found):
            found = group
    return (sorted(found) if len(found) > 1 else []), True


def _groups_along(axes: Sequence[str], models: Iterable[nn.Module]) -> Iterator[list[int]]:
    for one in gc.get_objects():
        if issubclass(type(one), DeviceMesh) and one.get_coordinate() is not None:
            names = one.mesh_dim_names or ()
            if any(name in axes for name in names):
                places = zip(names, one.get_coordinate(), strict=True)
                at = tuple(slice(None) if name in axes else place for name, place in places)
                yield one.mesh[at].flatten().tolist()
    state: Any = sys.modules.get("megatron.core.parallel_state")
    if state is not None and "dp" in axes:
        with suppress(AssertionError, AttributeError, RuntimeError):
            yield dist.get_process_group_ranks(state.get_data_parallel_group())
    for model in models:
        for part in model.modules():
            if isinstance(part, DistributedDataParallel) and "dp" in axes:
                yield dist.get_process_group_ranks(part.process_group)
                return


def _alike_along(known: Iterable[str], parameters: Iterable[nn.Parameter]) -> list[str]:
    sharded: set[str] = set()
    for one in parameters:
        mesh, placements = getattr(one, "device_mesh", None), getattr(one, "placements", ())
        names = getattr(mesh, "mesh_dim_names", None) or ()
        if placements and not names and any(not p.is_replicate() for p in placements):
            return []  # nobody knows along what
        sharded.update(
            name for name, p in zip(names, placements, strict=False) if not p.is_replicate()
        )
    # An axis made of others, such as dp_shard_cp, shards along each of them.
    return [
        name
        for name in known
        if name in _OF_DATA and not any(f"_{name}_" in f"_{one}_" for one in sharded)
    ]
