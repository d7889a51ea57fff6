"""Lines for people: to the console, or to one file a rank."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import torch
from torch import Tensor

from msprobe_operators.judge.compare import count_bad
from msprobe_operators.live.gate import rank

_MOST_ELEMENTS = 20
_RULE = "=" * 28


class Log:
    """Writes lines; a file is made with its directory and begins with the time."""

    def __init__(self, to_file: bool, output_dir: str, name: str) -> None:
        self._file: TextIO | None = None
        self.path: Path | None = None
        if to_file:
            here = rank()
            suffix = "" if here < 0 else f"_rank{here}"
            self.path = Path(output_dir or ".") / f"{name}{suffix}.txt"
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("w", encoding="utf-8", errors="backslashreplace")
        self.line(f"{datetime.now():%Y-%m-%d, %H:%M:%S}")

    def line(self, text: str = "") -> None:
        """Write one line; what cannot be written is lost, training goes on."""
        try:
            print(text, file=self._file or sys.stdout)
        except (OSError, ValueError):
            self._file = None

    def step(self, number: int) -> None:
        """The line between steps."""
        self.line(f"{'-' * 25}  step = {number}  {'-' * 22}")
        self.flush()

    def flush(self) -> None:
        """Hand everything to the file."""
        if self._file is not None and not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def failure(
        self,
        full_name: str,
        test: str,
        reason: str,
        call: tuple[tuple[Any, ...], dict[str, Any]],
        results: tuple[Any, ...],
        references: tuple[Any, ...],
        *,
        verbose: bool,
    ) -> None:
        """The block of a failed call: inputs, outputs, and where they differ."""
        self.line()
        self.line(_RULE)
        self.line(f"[ERROR] {full_name} fails to pass {test} test")
        self.line("....... input .........")
        for key, value in [*enumerate(call[0]), *call[1].items()]:
            self.line(f"{key}: {summary(value)}")
        self.line()
        self.line("...... output ........")
        for value in results:
            self.line(summary(value))
        self.line()
        self.line("...... compare with reference .......")
        self.line(reason)
        for one, other in zip(results, references, strict=False):
            if isinstance(one, Tensor) and isinstance(other, Tensor) and one.shape == other.shape:
                self._differences(one, other)
                if verbose:
                    self.line(summary(one))
                    self.line(str(one.detach()))
                    self.line(summary(other))
                    self.line(str(other.detach()))
        self.line(_RULE)
        self.line()
        self.flush()

    def _differences(self, one: Tensor, other: Tensor) -> None:
        """The elements that differ most, at most twenty."""
        left, right = one.detach().cpu(), other.detach().cpu()
        if left.is_complex() or not left.numel():
            return
        error = (left.double() - right.double()).abs()
        odd = torch.isnan(left) != torch.isnan(right)
        odd |= (torch.isinf(left) | torch.isinf(right)) & (left.double() != right.double())
        error = torch.where(odd, torch.inf, torch.nan_to_num(error, nan=0.0))
        count = int((error > 0).sum())
        if count > _MOST_ELEMENTS:
            self.line(f"{count:,} elements differ; the {_MOST_ELEMENTS} that differ most:")
        order = error.reshape(-1).argsort(descending=True, stable=True)[
            : min(count, _MOST_ELEMENTS)
        ]
        for place in order.tolist():
            index = tuple(
                int(part) for part in torch.unravel_index(torch.tensor(place), left.shape)
            )
            self.line(
                f"Element at index {index} is not close: {left[index].item()}({one.device})"
                f" vs {right[index].item()}({other.device}, {str(other.dtype)[6:]})"
            )


def summary(value: Any, *, counts: bool = False) -> str:
    """A tensor's facts on one line, anything else as it is."""
    if not isinstance(value, Tensor):
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(summary(item, counts=counts) for item in value)}]"
        return repr(value)[:200]
    facts = [
        f"shape={value.shape}",
        f"dtype={value.dtype}",
        f"stride={value.stride()}" if value.layout == torch.strided else f"layout={value.layout}",
        f"device={value.device}",
        f"size={value.numel()}",
    ]
    bad = count_bad(value) if counts else (0, 0)
    if bad != (0, 0):
        facts += [f"nan_num={bad[0]}", f"inf_num={bad[1]}"]
        return f"[WARNING] Tensor <{', '.join(facts)}>"
    return f"Tensor <{', '.join(facts)}>"
