"""Megatron-LM's and MindSpeed's checkpoints: one file per part of the model, joined to the whole.

Only names, shapes and the recorded sizes are used; Megatron itself is not needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.limits import HIGHEST_EXPERT
from msprobe_builder.facts.fact import Fact, fact
from msprobe_checks.checkpoint.cuts import (
    Cut,
    cut_of,
    expert_of,
    experts_apart,
    is_gated,
    layer_of,
    with_expert,
    with_layer,
)
from msprobe_checks.checkpoint.files import Inert, load_torch, tensors
from msprobe_checks.checkpoint.parameter import (
    Checkpoint,
    Parameter,
    ShapeError,
    are_equal,
    joined,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

_RANK = re.compile(r"mp_rank_(\d{2,})(?:_(\d{3,}))?(?:_(\d{3,}))?\Z")
_FILES = ("model_optim_rng.pt", "model_rng.pt")
_CHUNK = re.compile(r"model(\d*)\Z")
Parts = dict[tuple[int, int], dict[str, Parameter]]  # by tensor and expert parallel rank


@dataclass(frozen=True)
class _Place:
    tp: int
    pp: int
    ep: int


def rank_directories(directory: Path) -> list[Path]:
    """The directories of single ranks in the directory of an iteration."""
    try:
        return sorted(one for one in directory.iterdir() if _RANK.match(one.name) and one.is_dir())
    except OSError as error:
        raise BuildError(f"Cannot read {directory}: {error.strerror}.") from error


def read_megatron(directory: Path) -> Checkpoint:
    """The whole model of one iteration; BuildError when files are missing or do not fit."""
    chunks: dict[tuple[int, int], Parts] = {}  # by virtual stage, then stage
    args: dict[str, Any] = {}
    for rank in rank_directories(directory):
        content = _content(rank)
        given = content.get("args")
        args = given.state if isinstance(given, Inert) else args
        place = _place(rank.name, args)
        models = {
            int(found[1] or 0): value
            for key, value in content.items()
            if (found := _CHUNK.match(str(key))) and isinstance(value, Mapping)
        }
        if not models:
            raise BuildError(f"{rank} holds no model: it has none of the keys model, model0.")
        local = _local_experts(rank, args)
        for chunk, model in models.items():
            own = {_unwrapped(name): one for name, one in tensors(model)}
            chunks.setdefault((chunk, place.pp), {})[place.tp, place.ep] = experts_apart(own, local)
    _require_all(directory, chunks, args)
    return _joined_stages(chunks, args)


def _local_experts(rank: Path, args: Mapping[str, Any]) -> int:
    """Experts of a rank; BuildError for numbers that no model has."""
    experts, ranks = _number(args, "num_experts"), _number(args, "expert_model_parallel_size") or 1
    if experts > HIGHEST_EXPERT or experts % ranks:
        raise BuildError(
            f"{rank} is damaged: num_experts {experts:,} is more than {HIGHEST_EXPERT:,}, or does "
            f"not divide by expert_model_parallel_size {ranks:,}."
        )
    return experts // ranks


def _content(rank: Path) -> Mapping[str, Any]:
    path = next((rank / name for name in _FILES if (rank / name).is_file()), None)
    if path is None:
        raise BuildError(f"{rank} holds neither of {', '.join(_FILES)}; copy the whole checkpoint.")
    content = load_torch(path)
    if not isinstance(content, Mapping):
        raise BuildError(f"{path} holds no checkpoint of Megatron: it is no mapping.")
    return content


def _place(name: str, args: Mapping[str, Any]) -> _Place:
    """Where a rank stands; a single further number is the stage, or the experts' without stages."""
    found = _RANK.match(name)
    assert found is not None
    first, second = found[2], found[3]
    if first is not None and second is None and _number(args, "pipeline_model_parallel_size") == 1:
        return _Place(int(found[1]), 0, int(first))
    return _Place(int(found[1]), int(first or 0), int(second or 0))


def _require_all(
    directory: Path, chunks: Mapping[tuple[int, int], Parts], args: Mapping[str, Any]
) -> None:
    sizes = {
        "tensor": (len({tp for parts in chunks.values() for tp, _ in parts}), "tensor"),
        "pipeline": (len({pp for _, pp in chunks}), "pipeline"),
    }
    for word, (count, key) in sizes.items():
        expected = _number(args, f"{key}_model_parallel_size") or count
        if count != expected:
            raise BuildError(
                f"{directory} holds {count} of {expected} {word}-parallel ranks; copy all of them."
            )
    ranks = {tuple(sorted(tp for tp, ep in parts)) for parts in chunks.values()}
    if len(ranks) > 1:
        raise BuildError(f"{directory} misses ranks of some stages; copy all of them.")


def _joined_stages(chunks: Mapping[tuple[int, int], Parts], args: Mapping[str, Any]) -> Checkpoint:
    """Every stage's parts joined, and the layers of all stages numbered through."""
    notes: list[Fact] = []
    whole: dict[str, Parameter] = {}
    stages = [(_joined_ranks(chunks[key], notes, args)) for key in sorted(chunks)]
    is_global = _numbers_run_through(stages)
    offsets: dict[str, int] = {}
    for stage in stages:
        counts: dict[str, int] = {}
        for name, parameter in stage.items():
            layer = layer_of(name)
            if layer is not None and not is_global:
                stem, number = layer
                counts[stem] = max(counts.get(stem, 0), number + 1)
                name = with_layer(name, number + offsets.get(stem, 0))
            whole.setdefault(name, parameter)
        for stem, count in counts.items():
            offsets[stem] = offsets.get(stem, 0) + count
    tp = len({tp for parts in chunks.values() for tp, _ in parts})
    pp, vpp = len({pp for _, pp in chunks}), len({chunk for chunk, _ in chunks})
    ep = len({ep for parts in chunks.values() for _, ep in parts})
    kind = f"Megatron, tp {tp} · pp {pp}" + (f" · vpp {vpp}" if vpp > 1 else "")
    return Checkpoint(kind + (f" · ep {ep}" if ep > 1 else ""), whole, tuple(notes), _groups(args))


def _numbers_run_through(stages: list[dict[str, Parameter]]) -> bool:
    seen: set[tuple[str, int]] = set()
    for stage in stages:
        own = {layer for name in stage if (layer := layer_of(name)) is not None}
        if seen & own:
            return False
        seen |= own
    return True


def _joined_ranks(parts: Parts, notes: list[Fact], args: Mapping[str, Any]) -> dict[str, Parameter]:
    """One stage's parameters over its tensor- and expert-parallel ranks."""
    names = dict.fromkeys(name for own in parts.values() for name in own)
    result: dict[str, Parameter] = {}
    local = 1 + max((expert[1] for name in names if (expert := expert_of(name))), default=-1)
    for name in names:
        by_expert: dict[int, list[Parameter]] = {}
        for (_, ep), own in sorted(parts.items()):
            if name in own:
                by_expert.setdefault(ep, []).append(own[name])
        expert = expert_of(name)
        first = parts[min(parts)]
        for ep, copies in by_expert.items():
            if expert is None:
                result[name] = _whole(name, copies, first, notes, args)
                break
            own_name = with_expert(name, expert[1] + ep * local)
            of_rank = parts[min(key for key in parts if key[1] == ep)]
            result[own_name] = _whole(name, copies, of_rank, notes, args)
    return result


def _whole(
    name: str,
    copies: list[Parameter],
    beside: Mapping[str, Parameter],
    notes: list[Fact],
    args: Mapping[str, Any],
) -> Parameter:
    cut = cut_of(name, copies[0])
    is_expert = expert_of(name) is not None
    if is_expert and _number(args, "expert_tensor_parallel_size") == 1:
        cut = Cut.NONE
    try:
        if len(copies) == 1 or (cut is Cut.NONE and _all_equal(copies)):
            return copies[0]
        if cut is Cut.ROW:
            return joined(copies, 1)
        if cut is Cut.COLUMN and is_gated(name, copies[0], beside):
            half = [one.shape[0] // 2 for one in copies]
            gates = [rows(one, [(0, at)]) for one, at in zip(copies, half, strict=True)]
            others = [rows(one, [(at, one.shape[0])]) for one, at in zip(copies, half, strict=True)]
            return joined(gates + others, 0)
        if cut is Cut.COLUMN:
            return joined(copies, 0)
    except ShapeError as error:
        notes.append(fact("checkpoint.parts", name=name, shapes=str(error)))
        return copies[0]
    notes.append(fact("checkpoint.unlike", name=name))
    return copies[0]


def _all_equal(copies: Iterable[Parameter]) -> bool:
    first, *others = copies
    if any(other.shape != first.shape for other in others):
        return False
    tensor = first.load()
    return all(are_equal(tensor, other.load()) for other in others)


def _unwrapped(name: str) -> str:
    while name.startswith("module."):
        name = name.removeprefix("module.")
    return name


def _number(args: Mapping[str, Any], key: str) -> int:
    value = args.get(key)
    return value if type(value) is int and 0 <= value < 1 << 31 else 0


def _groups(args: Mapping[str, Any]) -> int | None:
    """Groups of query heads that share a key: the blocks of a fused projection."""
    if args.get("group_query_attention"):
        return _number(args, "num_query_groups") or None
    return _number(args, "num_attention_heads") or None
