"""The cheapest record of a training: what went in and what came out of each step, in one line.

It tells at which step two trainings part, and whether data, weights, random numbers or settings of
the optimizer do so first. Lines are JSON; :data:`KEYS` says what they hold.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import atexit
import base64
import json
import random
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from msprobe_collector.process import process_rank
from msprobe_collector.record.items import collect_tensors
from msprobe_collector.record.sketches import Sketches
from msprobe_collector.record.statistics import plain_part
from msprobe_collector.record.uncompiled import uncompiled_name
from msprobe_collector.unseen import unseen
from msprobe_collector.write.host_bytes import host_bytes

# Tensors are described by {"dtype", "shape", "crc", "norm", "sketch"}; see :func:`Trace._told`.
KEYS = {
    "step": "its number",
    "random": "checksums of the states of generators, when the model is called first",
    "data": "tensors given to the models, call by call",
    "before": "parameters before the first step, by name; in its line alone",
    "outputs": "tensors that the models returned, call by call",
    "gradients": "gradients that the optimizers were given, by names of parameters",
    "weights": "parameters after the optimizers have stepped, by name",
    "settings": "numbers among the settings of each group of parameters of each optimizer",
}


class Trace:
    """Writes ``trace{rank}.jsonl`` into a folder; numbers are read, never changed."""

    def __init__(self, folder: Path) -> None:
        rank = process_rank()
        folder.mkdir(parents=True, exist_ok=True)
        name = "trace.jsonl" if rank is None else f"trace{rank}.jsonl"
        self._file = (folder / name).open("w", encoding="utf-8")
        self._names: dict[int, str] = {}
        self._line: dict[str, Any] = {}
        self._step = 0
        atexit.register(self.close)

    def called(
        self, models: Iterable[nn.Module], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """A model is called in a step."""
        if not self._line:
            self._begin(list(models))
        given: list[torch.Tensor] = []
        collect_tensors((args, kwargs), given)
        self._line["data"].append(self._told({str(n): one for n, one in enumerate(given)}))

    def returned(self, result: Any) -> None:
        """It has returned."""
        found: list[torch.Tensor] = []
        collect_tensors(result, found)
        self._line["outputs"].append(self._told({str(n): one for n, one in enumerate(found)}))

    def stepping(self, optimizer: Optimizer) -> None:
        """An optimizer is about to step."""
        if not self._line:
            return
        changed = [one for group in optimizer.param_groups for one in group["params"]]
        gradients = {self._name(one): one.grad for one in changed if one.grad is not None}
        self._line["gradients"].update(self._told(gradients))
        self._line["settings"] += [_numbers(group) for group in optimizer.param_groups]

    def stepped(self, optimizer: Optimizer) -> None:
        """It has stepped."""
        if self._line:
            changed = [one for group in optimizer.param_groups for one in group["params"]]
            self._line["weights"].update(self._told({self._name(one): one for one in changed}))

    def step(self) -> None:
        """The step is over."""
        if self._line:
            self._file.write(json.dumps(self._line) + "\n")
            self._file.flush()
            self._line = {}
        self._step += 1

    def close(self) -> None:
        """Finish the file."""
        if not self._file.closed:
            self.step()
            self._file.close()

    def _begin(self, models: list[nn.Module]) -> None:
        lists: dict[str, list[Any]] = {key: [] for key in ("data", "outputs", "settings")}
        self._line = {"step": self._step, "random": _random_state(), **lists}
        self._line |= {"gradients": {}, "weights": {}}
        parameters: dict[str, torch.Tensor] = {}
        for number, model in enumerate(models):
            prefix = "" if len(models) == 1 else f"{number}."
            named = model.named_parameters()
            parameters |= {prefix + uncompiled_name(name): one for name, one in named}
        self._names = {id(one): name for name, one in parameters.items()}
        if not self._step:
            self._line["before"] = self._told(parameters)

    def _name(self, parameter: torch.Tensor) -> str:
        return self._names.setdefault(id(parameter), f"unnamed.{len(self._names)}")

    def _told(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, dict[str, Any]]:
        """Each tensor by checksum, norm and sketch (64 numbers of float32 in base64)."""
        sketches = Sketches()
        found: dict[str, dict[str, Any]] = {}
        with unseen():
            for name, tensor in tensors.items():
                plain = plain_part(tensor)
                if plain is None:
                    continue
                plain, content = host_bytes(plain.cpu())
                found[name] = {
                    "dtype": str(plain.dtype).removeprefix("torch."),
                    "shape": list(plain.shape),
                    "crc": zlib.crc32(content),
                    "row": sketches.add(plain, None) if plain.is_floating_point() else -1,
                }
        rows = sketches.take()
        for record in found.values():
            row = record.pop("row")
            if row >= 0:
                numbers = rows[row]["numbers"].astype("<f4").tobytes()
                record["sketch"] = base64.b64encode(numbers).decode()
        return found


def _numbers(group: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a group of parameters that are numbers, or lists of them."""
    return {key: one for key, one in sorted(_settings(group)) if key != "params"}


def _settings(group: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in group.items():
        plain = value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
        if plain is None or isinstance(plain, bool | int | float):
            yield key, plain
        elif isinstance(plain, tuple | list) and all(isinstance(one, int | float) for one in plain):
            yield key, list(plain)


def _random_state() -> dict[str, int]:
    found = {
        "python": zlib.crc32(repr(random.getstate()).encode()),
        "torch": zlib.crc32(torch.get_rng_state().numpy().tobytes()),
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["device"] = zlib.crc32(torch.cuda.get_rng_state().numpy().tobytes())
    return found
