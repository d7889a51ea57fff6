"""Gradient norms as the training script of the recorded dumps takes them, made anew with a fault.

Behind its last backward pass each rank takes the norm of each of its gradients, squares and stacks
them, adds them up and reduces the sum over all ranks. A fault changes one step of that on one rank;
what follows is computed again from there, on every rank.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def _set(tensor: Record, value: float) -> None:
    for key in ("Max", "Min", "Mean", "Norm"):
        tensor[key] = value


def same(value: float) -> float:
    """No fault."""
    return value


@dataclass(frozen=True)
class Fault:
    """What one rank does otherwise than the script.

    ``gradient`` is what it makes of the gradient of a norm, ``norm`` of the norm itself, both of
    the norm numbered ``place``; ``left_out`` is not stacked; ``total`` is what it makes of its sum;
    ``once`` leaves out all gradients of one dimension, which tensor-parallel ranks hold alike;
    ``reduce`` is how all ranks put their sums together, ``kept`` that the rank keeps its own sum.
    """

    rank: int
    place: int = 0
    gradient: Callable[[float], float] = same
    norm: Callable[[float], float] = same
    left_out: int | None = None
    once: bool = False
    total: Callable[[float], float] = same
    reduce: Callable[[list[float]], float] = sum
    kept: bool = False


NOBODY = Fault(-1)


def with_fault(source: Path, target: Path, fault: Fault) -> Path:
    """A copy of a dump whose norms were taken with a fault."""
    shutil.copytree(source, target)
    paths = sorted(target.glob("step0/rank*/dump.json"))
    dumps = [json.loads(path.read_text("utf-8")) for path in paths]
    sums = []
    for path, dump in zip(paths, dumps, strict=True):
        rank = int(path.parent.name.removeprefix("rank") or 0)
        own = fault if rank == fault.rank else NOBODY
        sums.append(own.total(_sum(_behind(dump["data"]), own)))
    total = fault.reduce(sums)
    for path, dump, own_sum in zip(paths, dumps, sums, strict=True):
        calls = _behind(dump["data"])
        rank = int(path.parent.name.removeprefix("rank") or 0)
        _set(_last(calls, "Tensor.sum.")["output"][0], own_sum)
        reduction = _last(calls, "Distributed.all_reduce.")
        _set(reduction["input_args"][0], own_sum)
        _set(reduction["output"][0], own_sum if fault.kept and rank == fault.rank else total)
        path.write_text(json.dumps(dump), encoding="utf-8")
    return target


def _behind(data: Record) -> Record:
    names = [*data]
    last = max(at for at, name in enumerate(names) if ".backward" in name)
    return {name: data[name] for name in names[last + 1 :]}


def _last(calls: Record, start: str) -> Record:
    found: Record = [record for name, record in calls.items() if name.startswith(start)][-1]
    return found


def _sum(calls: Record, fault: Fault) -> float:
    norms = [record for name, record in calls.items() if name.startswith("Tensor.norm.")]
    powers = [record for name, record in calls.items() if name.startswith("Tensor.__pow__.")]
    squares = []
    for place, (norm, power) in enumerate(zip(norms, powers, strict=True)):
        gradient = norm["input_args"][0]
        value = gradient["Norm"]
        if place == fault.place and fault.gradient is not same:
            factor = fault.gradient(value) / value
            for key in ("Max", "Min", "Mean", "Norm"):
                gradient[key] *= factor
            value = gradient["Norm"]
        value = fault.norm(value) if place == fault.place else value
        _set(norm["output"][0], value)
        _set(power["input_args"][0], value)
        _set(power["output"][0], value**2)
        squares.append(value**2)
    if fault.left_out is not None:
        del squares[fault.left_out]
    if fault.once:
        sizes = [len(record["input_args"][0]["shape"]) for record in norms]
        squares = [one for one, size in zip(squares, sizes, strict=True) if size > 1]
    [stack] = [record for name, record in calls.items() if name.startswith("Torch.stack.")]
    listed = stack["input_args"][0]
    del listed[len(squares) :]
    for tensor, value in zip(listed, squares, strict=True):
        _set(tensor, value)
    taken = _last(calls, "Tensor.sum.")["input_args"][0]
    for tensor in (stack["output"][0], taken):
        tensor["shape"] = [len(squares)]
        tensor["Max"], tensor["Min"] = max(squares), min(squares)
        tensor["Mean"] = sum(squares) / len(squares)
        tensor["Norm"] = sqrt(sum(value**2 for value in squares))
    return sum(squares)
