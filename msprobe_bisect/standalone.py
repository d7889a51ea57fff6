"""@WHAT@

It starts a training and looks at the places of it in which the two runs of the search differed.

    python reproduce.py             what was debugged, as below
    python reproduce.py COMMAND     another training: the reference, or one that is mended

Status 1: something is not as in the reference; 0: all is as there; 2: it was not reached.
Run it where both commands run. It needs torch alone.
"""

# Calls of torch and the registers of a Python that starts are typed in part only.
# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

import atexit
import base64
import ctypes
import importlib.machinery
import importlib.util
import json
import math
import os
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

COMMAND = ""
RANK = 0
STEP = 0
FIRST = 0  # calls of the model before this step
CALLS = 1  # calls of the model in it
REFERENCE: dict[str, Any] = {}  # what is expected, by place

FOLDER = "MSPROBE_REPRODUCE"
WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
FLAT, DEEP, WORD = 32, 16, (1 << 64) - 1


# -- sums of the elements with fixed signs: they tell how far two tensors are apart ----------------


def mixed(counter: int) -> int:
    word = (counter + 1) * 0x9E3779B97F4A7C15 & WORD
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & WORD
    return word ^ word >> 31


@lru_cache(maxsize=64)
def signs(table: int, length: int, depth: int) -> Any:
    import torch

    sums, rows = [0] * depth, []
    for place in range(length):
        word = mixed(table << 32 | place)
        new = [1 if word >> bit & 1 else -1 for bit in range(depth)]
        along = sum(one * sign for one, sign in zip(sums, new, strict=True))
        square, wanted = sum(one * one for one in sums), depth * place
        if (along > 0 and 5 * square > 7 * wanted) or (along < 0 and 10 * square < 7 * wanted):
            new = [-sign for sign in new]
        sums = [one + sign for one, sign in zip(sums, new, strict=True)]
        rows.append(new)
    return torch.tensor(rows, dtype=torch.float64)


def sketch(tensor: Any) -> list[float]:
    import torch

    numbers = tensor.flatten().float().double()
    numbers = torch.where(torch.isfinite(numbers), numbers, 0.0)
    size, root = numbers.numel(), math.isqrt(numbers.numel())
    if size <= FLAT:
        return [*numbers.tolist(), *[0.0] * (FLAT - size)]

    def lines(width: int) -> Any:
        full = numbers.new_zeros(-(-size // width) * width)
        full[:size] = numbers
        return full.view(-1, width)

    narrow, wide = lines(root // 4 | 1), lines(4 * root | 1)
    first = (narrow @ signs(0, narrow.shape[1], 1)).T @ signs(1, narrow.shape[0], DEEP)
    second = (signs(2, wide.shape[0], 1).T @ wide) @ signs(3, wide.shape[1], DEEP)
    return (torch.cat([first, second], 1)[0] / FLAT**0.5).tolist()


def described(tensor: Any) -> dict[str, Any] | None:
    """None of a tensor that holds no numbers here."""
    import torch

    tensor = getattr(tensor, "_local_tensor", tensor).detach()
    if tensor.is_meta or tensor.layout is not torch.strided:
        return None
    tensor = tensor.cpu().resolve_conj().contiguous()
    size = tensor.numel() * tensor.element_size()
    content = ctypes.string_at(tensor.data_ptr(), size) if size else b""
    told = {"shape": list(tensor.shape), "crc": zlib.crc32(content)}
    return {**told, "sketch": sketch(tensor)} if tensor.is_floating_point() else told


# -- what is not as in the reference ---------------------------------------------------------------


def numbers_of(told: Any) -> list[float]:
    """A sketch as the reference writes it, or as it was made here."""
    kept = told["sketch"]
    return [*struct.unpack(f"<{FLAT}f", base64.b64decode(kept))] if isinstance(kept, str) else kept


def apart(own: Any, other: Any) -> float:
    """By which share of its size a tensor is off; 0 for the same bytes."""
    if own["shape"] != other["shape"]:
        return math.inf
    if "crc" in own and own["crc"] == other.get("crc"):
        return 0.0
    if "sketch" not in own or "sketch" not in other:
        return math.inf
    mine, known = numbers_of(own), numbers_of(other)
    size = math.sqrt(sum(one * one for one in known))
    error = math.sqrt(sum((a - b) ** 2 for a, b in zip(mine, known, strict=True)))
    return error / size if size else math.inf if error else 0.0


def compared(reference: dict[str, Any], found: dict[str, Any]) -> list[tuple[bool, str]]:
    """For each place of the reference whether it is otherwise, and in words."""
    lines = []
    for place, other in reference.items():
        own = found.get(place)
        if place not in found:
            lines.append((True, f"{place} is not there"))
        elif not isinstance(other, dict):
            lines.append((own != other, f"{place} is {own!r}, {other!r} in the reference"))
        else:
            share, limit = apart(own, other), other["limit"]
            if share <= limit:
                said = "the same" if not share else f"off by {share:.2g} of its size: rounding"
            elif share == math.inf:
                said = "not the same"
            else:
                said = f"off by {share:.2g} of its size, allowed are {limit:.2g}"
            lines.append((share > limit, f"{place} is {said}"))
    return lines


# -- inside the training ---------------------------------------------------------------------------


def plain_name(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def flat(value: Any) -> list[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    elif hasattr(value, "__dataclass_fields__"):
        value = [getattr(value, name) for name in value.__dataclass_fields__]
    return [one for part in value for one in flat(part)] if isinstance(value, (list, tuple)) else []


class Looking:
    """Looks at the places of :data:`REFERENCE` while the model is trained."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.calls = -FIRST  # of the model in the step
        self.stepped = self.is_over = False
        self.names: dict[int, str] = {}
        self.before: dict[str, list[float]] = {}
        self.made: dict[str, int] = {}

    def take(self, place: str, tensor: Any) -> None:
        if place in REFERENCE and (told := described(tensor)) is not None:
            self.found[place] = told

    def named(self, model: Any) -> None:
        """Names of parameters and modules, which the search may have met in a larger model."""
        wanted = {place.partition(" of ")[2].partition(",")[0] for place in REFERENCE}
        for name, parameter in model.named_parameters():
            self.names[id(parameter)] = whole_name(plain_name(name), wanted)
        for name, module in model.named_modules():
            name = whole_name(plain_name(name), wanted)
            if any(f" of {name}, call" in place for place in REFERENCE) and name not in self.made:
                self.made[name] = 0
                self.look_at(module, name)

    def look_at(self, module: Any, name: str) -> None:
        import torch

        def after(args: Any, kwargs: Any, result: Any) -> None:
            if torch.compiler.is_compiling() or self.is_over:
                return
            number, self.made[name] = self.made[name], self.made[name] + 1
            for side, values in (("input", flat((args, kwargs))), ("output", flat(result))):
                for at, one in enumerate(values):
                    self.take(f"{side} {at} of {name}, call {number}", one)

        compiled = getattr(module, "_compiled_call_impl", None)
        if compiled is None:
            hook = module.register_forward_hook
            hook(lambda _, args, kwargs, result: after(args, kwargs, result), with_kwargs=True)
        else:  # hooks would be compiled as well

            def run(*args: Any, **kwargs: Any) -> Any:
                result = compiled(*args, **kwargs)
                after(args, kwargs, result)
                return result

            module._compiled_call_impl = run

    def enter(self, model: Any, args: Any, kwargs: Any) -> None:
        if self.calls >= CALLS or (self.stepped and self.calls > 0):
            self.finish()
        if self.calls == 0:
            self.stepped = False
        if self.calls >= 0 and not self.is_over:
            self.named(model)
            for number, one in enumerate(flat((args, kwargs))):
                self.take(f"tensor {number} given to call {self.calls}", one)
            for parameter in model.parameters() if not self.calls else ():
                name = self.names[id(parameter)]
                self.take(f"weight of {name}", parameter)
                if f"update of {name}" in REFERENCE:
                    self.before[name] = described(parameter)["sketch"]  # type: ignore[index]

    def leave(self, result: Any) -> None:
        if self.calls >= 0 and not self.is_over:
            for number, one in enumerate(flat(result)):
                self.take(f"output {number} of the model, call {self.calls}", one)
        self.calls += 1

    def stepping(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self.calls <= 0 or self.is_over:
            return
        for number, group in enumerate(optimizer.param_groups):
            for key, value in group.items():
                place = f"{key} of group {number}"
                if place in REFERENCE and place not in self.found:
                    plain = value.item() if hasattr(value, "item") else value
                    self.found[place] = list(plain) if isinstance(plain, tuple) else plain
            for parameter in group["params"]:
                if parameter.grad is not None and id(parameter) in self.names:
                    self.take(f"gradient of {self.names[id(parameter)]}", parameter.grad)

    def after_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        self.stepped = True
        if self.calls > 0 and not self.is_over:
            self.found.setdefault("the number of calls", self.calls)
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    name = self.names.get(id(parameter), "")
                    if name in self.before and (told := described(parameter)) is not None:
                        pairs = zip(told["sketch"], self.before[name], strict=True)
                        delta = [after - before for after, before in pairs]
                        self.found[f"update of {name}"] = {"shape": told["shape"], "sketch": delta}

    def finish(self) -> None:
        if self.is_over or self.calls <= 0:
            return
        self.is_over = True
        draft = Path(os.environ[FOLDER], "found.part")
        draft.write_text(json.dumps(self.found))
        draft.replace(draft.with_suffix(".json"))


def whole_name(name: str, wanted: set[str]) -> str:
    return next((one for one in wanted if one == name or one.endswith(f".{name}")), name)


def follow() -> None:
    """Look at the training of this process once torch is there."""
    import torch
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    looking, original = Looking(), torch.nn.Module.__call__

    def trains(module: Any) -> bool:
        return (
            module.training
            and torch.is_grad_enabled()
            and torch._C._current_graph_task_id() == -1
            and any(one.requires_grad for one in module.parameters())
        )

    def rank() -> int:
        known = torch.distributed.is_available() and torch.distributed.is_initialized()
        return torch.distributed.get_rank() if known else 0

    def call(module: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or not trains(module) or rank() != RANK:
            return original(module, *args, **kwargs)
        with torch.no_grad():
            looking.enter(module, args, kwargs)
        torch.nn.Module.__call__ = original  # type: ignore[method-assign]  # for what is inside
        try:
            result = original(module, *args, **kwargs)
        finally:
            torch.nn.Module.__call__ = call  # type: ignore[method-assign]
        with torch.no_grad():
            looking.leave(result)
        return result

    torch.nn.Module.__call__ = call  # type: ignore[method-assign]
    register_optimizer_step_pre_hook(looking.stepping)
    register_optimizer_step_post_hook(looking.after_step)
    atexit.register(looking.finish)


class Waiting:
    """Lets every import pass; behind that of torch the training is followed."""

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec: Any = importlib.util.find_spec(name)
        if spec is not None:
            run = spec.loader.exec_module

            def run_and_follow(module: Any) -> None:
                run(module)
                follow()

            spec.loader.exec_module = run_and_follow
        return spec


def start() -> None:
    """In each Python of the training, as the module that it runs first."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != here]
    sys.meta_path.insert(0, Waiting())
    spec = importlib.machinery.PathFinder.find_spec(__name__, sys.path)
    if spec is not None and spec.loader is not None:  # one of the user's own
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


# -- the command -----------------------------------------------------------------------------------


def main() -> int:
    command = sys.argv[1:] or shlex.split(COMMAND)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(__file__, Path(folder, "sitecustomize.py"))
        behind = os.environ.get("PYTHONPATH")
        paths = os.pathsep.join([folder, *([behind] if behind else [])])
        path = Path(folder, "found.json")
        environment = {**os.environ, "PYTHONPATH": paths, FOLDER: folder}
        training = subprocess.Popen(command, env=environment, start_new_session=True)
        try:
            while training.poll() is None and not path.exists():
                time.sleep(0.1)
        finally:
            end(training)
        if not path.exists():
            print(f"Step {STEP} of rank {RANK} was not reached.")
            return 2
        found = json.loads(path.read_text())
    if not any(place in found for place in REFERENCE):
        print(f"Step {STEP} of rank {RANK} has none of: {', '.join(REFERENCE)}.")
        return 2
    lines = compared(REFERENCE, found)
    for is_wrong, text in lines:
        print("WRONG" if is_wrong else "right", f"step {STEP}, rank {RANK}: {text}")
    return 1 if any(is_wrong for is_wrong, _ in lines) else 0


def end(training: Any) -> None:
    """What comes behind the step is not wanted."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if training.poll() is None:
            os.killpg(training.pid, number)
            try:
                training.wait(20)
            except subprocess.TimeoutExpired:
                continue


if __name__ == "__main__":
    sys.exit(main())
elif __name__ == "sitecustomize" and FOLDER in os.environ:
    start()
