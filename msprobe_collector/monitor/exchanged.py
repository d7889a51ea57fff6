"""Which tensors a communication gives and gets, and to and from whom."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_leaves

from msprobe_builder.link.signatures import Function, Pattern
from msprobe_collector.record.plain_values import group_id, group_ranks

MOST_PARTS = 16  # ranks of a group, each pair of which has rows of its own
_TRANSFER = "transfer"  # all that one rank sends to another, whatever line does
# The parameters with a part for each rank, given and got, and those that say how one is cut.
_PARTED = {
    "all_to_all": (("input_tensor_list", ""), ("output_tensor_list", "")),
    "all_to_all_single": (("input", "input_split_sizes"), ("output", "output_split_sizes")),
    "reduce_scatter": (("input_list", ""), None),
    **dict.fromkeys(
        ("reduce_scatter_tensor", "reduce_scatter_single", "_reduce_scatter_base"),
        (("input", ""), None),
    ),
}


class Part(NamedTuple):
    """A tensor, and the name of what goes between two ranks, "" for all others.

    What is received from anyone has a name for each rank of the group, None for this one.
    """

    tensor: torch.Tensor
    pair: str = ""
    anyone: tuple[str | None, ...] = ()


class Exchanged(NamedTuple):
    """What a call gives and gets."""

    given: list[Part]
    got: list[Part]


def exchanged(name: str, place: str, function: Function, bound: dict[str, Any]) -> Exchanged:
    """What the call ``name`` at ``place`` moves; ``bound`` are its arguments by name."""
    if function.pattern is Pattern.BATCH:
        return _of_batch(bound.get("p2p_op_list") or ())
    if function.pattern in (Pattern.SEND, Pattern.RECEIVE):
        return _of_pair(function, bound)
    if name in _PARTED:
        parted = _of_parts(name, place, bound)
        if parted is not None:
            return parted
    return _of_all(function, bound)


def _of_pair(function: Function, bound: dict[str, Any]) -> Exchanged:
    """A send or a receive; who has sent what comes from anyone is known when it is there."""
    ranks = group_ranks(bound.get("group"))
    in_group = bound.get(f"group_{function.peer}")
    peer = bound.get(function.peer or "") if in_group is None else ranks[in_group]
    is_sent = function.pattern is Pattern.SEND
    tag = bound.get("tag", 0)
    pair = _pair(is_sent, peer, ranks, tag)
    anyone: tuple[str | None, ...] = ()
    if peer is None and not is_sent:
        own = dist.get_rank()
        anyone = tuple(None if one == own else _pair(False, one, ranks, tag) for one in ranks)
    parts = [Part(tensor, pair, anyone) for tensor in _leaves(bound.get("tensor"))]
    return Exchanged(parts, []) if is_sent else Exchanged([], parts)


def _of_batch(operations: Sequence[Any]) -> Exchanged:
    found = Exchanged([], [])
    for one in operations:
        is_sent = one.op.__name__ in ("isend", "send")
        pair = _pair(is_sent, one.peer, group_ranks(one.group), one.tag)
        (found.given if is_sent else found.got).append(Part(one.tensor, pair))
    return found


def _pair(is_sent: bool, peer: int | None, ranks: Sequence[int], tag: int) -> str:
    if peer is None:
        return ""
    channel = (
        _TRANSFER if len(ranks) == dist.get_world_size() else f"{_TRANSFER}@{group_id([*ranks])}"
    )
    return f"{channel}{f'#{tag}' if tag else ''} {'given to' if is_sent else 'got from'} {peer}"


def _of_parts(name: str, place: str, bound: dict[str, Any]) -> Exchanged | None:
    """A part for each rank of the group; None where there are many, or other ones."""
    ranks = group_ranks(bound.get("group"))
    sides: list[list[Part]] = []
    for way, key in zip(("given to", "got from"), _PARTED[name], strict=True):
        if key is None:
            sides.append([Part(tensor) for tensor in _leaves(bound.get("output"))])
            continue
        parts = _cut(bound.get(key[0]), bound.get(key[1]), len(ranks))
        if len(ranks) > MOST_PARTS or parts is None:
            return None
        sides.append(
            [Part(p, f"{place} {way} {rank}") for p, rank in zip(parts, ranks, strict=True)]
        )
    return Exchanged(*sides)


def _cut(value: Any, lengths: Any, count: int) -> Sequence[torch.Tensor] | None:
    if not isinstance(value, torch.Tensor):
        parts = list(_leaves(value))
        return parts if len(parts) == count else None
    if lengths:
        return value.split(list(lengths)) if len(lengths) == count else None
    if not value.dim() or value.shape[0] % count:
        return None
    return value.split(value.shape[0] // count) if value.shape[0] else None


def _of_all(function: Function, bound: dict[str, Any]) -> Exchanged:
    """All arguments where the signature does not tell which are given."""
    received = function.received.parameter if function.received is not None else function.result
    sent = function.sent.parameter if function.sent is not None else None
    given = [
        value
        for name, value in bound.items()
        if (name == sent if sent is not None else name != received or function.received is None)
    ]
    if function.peer == "src" and sent is None:
        given = []
    return Exchanged(
        [Part(one) for one in _leaves(given)],
        [Part(one) for one in _leaves(bound.get(received or ""))],
    )


def _leaves(value: Any) -> Iterator[torch.Tensor]:
    yield from (one for one in tree_leaves(value) if isinstance(one, torch.Tensor))
