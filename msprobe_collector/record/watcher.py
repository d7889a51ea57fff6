"""What the ledger tells of records to whoever compares them while the training runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt

from msprobe_collector.record.calls import Call


class Watcher(Protocol):
    """Told of records in the order in which they are made, asked when they are written."""

    copies: bool  # whether what is given next is about to be changed

    @property
    def is_full(self) -> bool:
        """Whether records should be written, so that it need not hold more tensors."""

    def open_step(self, directory: Path) -> None: ...

    def place(self, call: Call) -> None: ...

    def note_stack(self, name: str, stack: int) -> None: ...

    def hold(self, path: str, tensor: Any, item: Any) -> None:
        """A tensor was described as ``item``."""

    def add(self, name: str, record: Mapping[str, Any]) -> None: ...

    def take(self, rows: npt.NDArray[Any]) -> None:
        """Sketches of the records, in their order."""

    def compare(self, lines: Callable[[int], list[str]], is_over: bool) -> None:
        """The numbers of all records are there; ``is_over`` where recording pauses with them."""

    def end_step(self) -> None: ...

    def close(self) -> None: ...
