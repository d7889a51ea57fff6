"""What the collector tells the user, with its own name in front."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from msprobe_collector.write.speed import bytes_per_second

_NAME = "msprobe_collector"
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


class _OwnHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Speaks only while the program has not said where its messages go."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            self.stream = sys.stderr
            super().emit(record)


def speak_up() -> None:
    """Show messages on the standard error stream unless the program handles them itself."""
    log = logging.getLogger(_NAME)
    if not log.handlers:
        handler = _OwnHandler()
        handler.setFormatter(logging.Formatter(f"{_NAME}: %(message)s"))
        log.addHandler(handler)
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)


def in_units(size: float) -> str:
    """A number of bytes as people say it: ``13.4 GB``."""
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == _UNITS[0] else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def describe_estimate(
    folder: Path,
    step: int,
    ranks: tuple[int, int] | None,
    steps: int,
    calls: int,
    records: int,
    tensors: int,
    seconds: float,
) -> str:
    """What recording a step would take; ``tensors`` are the bytes of task tensor.

    ``ranks`` are this one and how many are recorded, where there are several, ``steps`` how many
    of its kind.
    """
    rate = bytes_per_second(folder)
    which, total = "", ""
    if ranks is not None:
        which = f" of rank {ranks[0]}"
    count = steps * (1 if ranks is None else ranks[1])
    if count > 1:
        of_steps = f"{steps} steps" if steps > 1 else ""
        of_ranks = "" if ranks is None else f"{ranks[1]} ranks"
        total = (
            f" All {' of '.join(one for one in (of_steps, of_ranks) if one)}: about"
            f" {in_units(count * records)} of records, with task tensor"
            f" {in_units(count * tensors)} more."
        )
    return (
        f"Step {step}{which} would hold {calls:,} calls and {in_units(records)} of records and "
        f"take {seconds:.1f} s; with task tensor also {in_units(tensors)} of tensors and about "
        f"{tensors / rate:.1f} s more on this disk ({in_units(rate)}/s).{total} Nothing was "
        "written."
    )


def describe_step(
    directory: Path, step: int, calls: int, records: int, tensors: int, seconds: float
) -> str:
    """One sentence on a step: where it lies and what it holds; sizes in bytes."""
    kept = f"{in_units(records)} of records"
    if tensors:
        kept += f", {in_units(tensors)} of tensors"
    return f"Step {step}: {calls:,} calls in {directory}, {kept}, {seconds:.1f} s."
