"""What every live mode shares: entering and leaving, the gate, the log, results."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from msprobe_operators.call.arguments import tensors
from msprobe_operators.call.operator import operator_name
from msprobe_operators.call.place import Place, forget_nodes, here, optimizer_followed
from msprobe_operators.call.saved import file_name, save_call
from msprobe_operators.live.gate import Gate, rank
from msprobe_operators.live.log import Log
from msprobe_operators.report.results import Results

Call = tuple[tuple[Any, ...], dict[str, Any]]


class OperatorFailedError(RuntimeError):
    """A call failed and ``dump_error_data`` asks to stop there; the text names the files."""


class LiveMode(TorchDispatchMode):
    """Looks at ATen calls as they are made; subclasses say what they look for."""

    def __init__(
        self,
        gate: Gate,
        log: Log | None,
        output_dir: str,
        dump_error_data: bool,
        verbose: bool = True,
    ) -> None:
        super().__init__()
        self.gate = gate
        self.results = Results()
        self._log = log
        self._verbose = verbose
        self._output_dir = Path(output_dir or ".")
        self._dump_error_data = dump_error_data
        self._stack = ExitStack()

    def __enter__(self) -> Any:
        self._stack.enter_context(optimizer_followed())
        return super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._stack.close()
        forget_nodes()
        if self._log is not None:
            self._log.flush()

    def step(self) -> None:
        """Say that a training step is over."""
        self.gate.step += 1
        forget_nodes()
        if self._log is not None and self.gate.is_open():
            self._log.step(self.gate.step)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if any(kind.__torch_dispatch__ is not Tensor.__torch_dispatch__ for kind in types):
            return NotImplemented  # DTensor and its like: their own plain calls come by later
        if not isinstance(func, OpOverload) or not self.gate.is_open():
            return func(*args, **kwargs)
        place = here()
        passed_over = self.gate.why_passed_over(func)
        if passed_over is not None:
            self._say_if_verbose(f"{place.full_name(operator_name(func))} {passed_over}")
            return func(*args, **kwargs)
        return self.look_at(func, args, kwargs, place)

    def look_at(
        self, operator: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], place: Place
    ) -> Any:
        """Make the call and look at it; returns its result."""
        raise NotImplementedError

    def _say(self, text: str) -> None:
        if self._log is not None:
            self._log.line(text)

    def _say_if_verbose(self, text: str) -> None:
        if self._verbose:
            self._say(text)

    def _stop_at(
        self, operator: OpOverload, call: Call, result: Any, place: Place, state: Tensor | None
    ) -> None:
        """Save a failed call and end the run, as asked for."""
        number = rank()
        shown = None if number < 0 else number
        inputs = self._output_dir / file_name(operator, "inputs", shown)
        outputs = self._output_dir / file_name(operator, "outputs", shown)
        name = place.full_name(operator_name(operator))
        save_call(inputs, operator, *call, place=name, random_state=state, output=result)
        torch.save([tensor.detach().cpu() for tensor in tensors(result)], outputs)
        if self._log is not None:
            self._log.close()
        raise OperatorFailedError(
            f"{name} failed; its inputs are in {inputs}, its outputs in {outputs}."
        )
