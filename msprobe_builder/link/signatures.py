"""The functions of torch.distributed: their parameters and what travels through them.

A call is recorded with positional and keyword arguments as they were written, and its output is
all positional arguments followed by all keyword values after the call. Binding them to the
function's parameters makes every call style read the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from msprobe_builder.operators.prefixes import COLLECTIVES


class Pattern(Enum):
    """Who talks to whom."""

    SEND = "send"  # to one peer
    RECEIVE = "receive"  # from one peer
    FROM_ROOT = "from root"  # one rank to all
    TO_ROOT = "to root"  # all ranks to one
    ALL = "all"  # everyone with everyone
    BATCH = "batch"  # a list of sends and receives


@dataclass(frozen=True)
class Payload:
    """A parameter that carries data; a list of tensors has one for each rank of the group."""

    parameter: str
    per_rank: bool = False


@dataclass(frozen=True)
class Function:
    """One function; ``result`` is a parameter that ends up equal on all ranks."""

    pattern: Pattern
    parameters: tuple[str, ...]
    sent: Payload | None = None
    received: Payload | None = None
    result: str | None = None
    peer: str | None = None  # the parameter with the peer's or root's rank; group_… counts in-group


def _function(
    pattern: Pattern,
    parameters: str,
    sent: str | None = None,
    received: str | None = None,
    result: str | None = None,
) -> Function:
    """Names of per-rank lists end in ``*``; the peer is the parameter ``src`` or ``dst``."""
    names = tuple(parameters.split())
    peer = next((name for name in names if name in ("src", "dst")), None)
    return Function(pattern, names, _payload(sent), _payload(received), result, peer)


def _payload(text: str | None) -> Payload | None:
    return None if text is None else Payload(text.rstrip("*"), text.endswith("*"))


_SEND = _function(Pattern.SEND, "tensor dst group tag group_dst", sent="tensor")
_RECEIVE = _function(Pattern.RECEIVE, "tensor src group tag group_src", received="tensor")
_GATHER_INTO = _function(
    Pattern.ALL,
    "output_tensor input_tensor group async_op",
    received="output_tensor",
    result="output_tensor",
)
_REDUCE_SCATTER = _function(Pattern.ALL, "output input op group async_op", received="output")

FUNCTIONS = {
    "send": _SEND,
    "isend": _SEND,
    "recv": _RECEIVE,
    "irecv": _RECEIVE,
    "send_object_list": _function(Pattern.SEND, "object_list dst group device group_dst use_batch"),
    "recv_object_list": _function(
        Pattern.RECEIVE, "object_list src group device group_src use_batch"
    ),
    "batch_isend_irecv": _function(Pattern.BATCH, "p2p_op_list"),
    "broadcast": _function(
        Pattern.FROM_ROOT, "tensor src group async_op group_src", "tensor", "tensor"
    ),
    "broadcast_object_list": _function(Pattern.FROM_ROOT, "object_list src group device group_src"),
    "scatter": _function(
        Pattern.FROM_ROOT,
        "tensor scatter_list src group async_op group_src",
        "scatter_list*",
        "tensor",
    ),
    "scatter_object_list": _function(
        Pattern.FROM_ROOT,
        "scatter_object_output_list scatter_object_input_list src group group_src",
    ),
    "reduce": _function(Pattern.TO_ROOT, "tensor dst op group async_op group_dst"),
    "gather": _function(
        Pattern.TO_ROOT,
        "tensor gather_list dst group async_op group_dst",
        "tensor",
        "gather_list*",
    ),
    "gather_object": _function(Pattern.TO_ROOT, "obj object_gather_list dst group group_dst"),
    "all_reduce": _function(Pattern.ALL, "tensor op group async_op", result="tensor"),
    "all_reduce_coalesced": _function(Pattern.ALL, "tensors op group async_op", result="tensors"),
    "all_gather": _function(
        Pattern.ALL, "tensor_list tensor group async_op", "tensor", "tensor_list*"
    ),
    "all_gather_coalesced": _function(
        Pattern.ALL,
        "output_tensor_lists input_tensor_list group async_op",
        received="output_tensor_lists",
    ),
    "all_gather_into_tensor": _GATHER_INTO,
    "all_gather_single": _GATHER_INTO,
    "_all_gather_base": _GATHER_INTO,
    "all_gather_object": _function(Pattern.ALL, "object_list obj group"),
    "reduce_scatter": _function(
        Pattern.ALL, "output input_list op group async_op", received="output"
    ),
    "reduce_scatter_tensor": _REDUCE_SCATTER,
    "reduce_scatter_single": _REDUCE_SCATTER,
    "_reduce_scatter_base": _REDUCE_SCATTER,
    "all_to_all": _function(
        Pattern.ALL,
        "output_tensor_list input_tensor_list group async_op",
        "input_tensor_list*",
        "output_tensor_list*",
    ),
    "all_to_all_single": _function(
        Pattern.ALL,
        "output input output_split_sizes input_split_sizes group async_op",
        received="output",
    ),
    "barrier": _function(Pattern.ALL, "group async_op device_ids"),
    "monitored_barrier": _function(Pattern.ALL, "group timeout wait_all_ranks"),
}
# Functions not listed: everyone with everyone, and only keywords can be told apart.
_UNKNOWN = Function(Pattern.ALL, ())


def function_of(stem: str) -> tuple[str, Function] | None:
    """Name and signature of the call with this stem, None when it is no communication."""
    prefix, _, name = stem.partition(".")
    if prefix not in COLLECTIVES:
        return None
    return name, FUNCTIONS.get(name, _UNKNOWN)


class Binding:
    """The parameters of one recorded call, whatever its style.

    ``inputs`` are the names of its recorded inputs: ``input.<position or keyword>[.<path>]``.
    """

    def __init__(self, function: Function, inputs: Iterable[str]) -> None:
        self._parameters = function.parameters
        heads = dict.fromkeys(_split(name)[0] for name in inputs)
        positions = [position for position in map(_position, heads) if position is not None]
        self._positional = 1 + max(positions, default=-1)
        self._keywords = [head for head in heads if _position(head) is None]

    def input(self, name: str) -> tuple[str, str]:
        """Parameter of a recorded input and the path below it."""
        head, path = _split(name)
        position = _position(head)
        return (head if position is None else self._at(position)), path

    def output(self, name: str) -> tuple[str, str]:
        """Parameter that a recorded output shows after the call, and the path below it."""
        head, path = _split(name)
        position = _position(head)
        if position is None:
            return head, path
        if position < self._positional:
            return self._at(position), path
        keyword = position - self._positional
        return (self._keywords[keyword] if keyword < len(self._keywords) else ""), path

    def _at(self, position: int) -> str:
        return self._parameters[position] if position < len(self._parameters) else ""


def _split(name: str) -> tuple[str, str]:
    """``input.0.1.tensor`` → ``0``, ``1.tensor``."""
    head, _, path = name.partition(".")[2].partition(".")
    return head, path


def _position(head: str) -> int | None:
    """The position of a positional argument, None for a keyword."""
    return int(head) if head.isdecimal() and len(head) < 6 else None
