"""Reading gradients whenever an optimizer of MindSpore is about to use them."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mindspore import nn
from mindspore.communication import GlobalComm, get_rank
from numpy.typing import NDArray

from msprobe_builder.base.publish import replaced
from msprobe_checks.gradients.file_names import plain_name
from msprobe_collector.config.gradients import GradientSettings
from msprobe_collector.config.settings import Config
from msprobe_collector.errors import CollectorError
from msprobe_collector.gradients.table import write_table
from msprobe_collector.signals import pass_on_if_of_signal

_log = logging.getLogger("msprobe_collector")


_PIECE = 1 << 20  # elements of a sketch at once
_FACTORS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9)


class GradientProbe:
    """Follows optimizers from ``monitor`` to ``stop``; a step is a call of the optimizer.

    The training goes on whatever becomes of the record.
    """

    def __init__(self, config: Config) -> None:
        assert config.gradients is not None
        self._settings = config.gradients
        self._config = config
        self._handles: list[Any] = []
        self._next: dict[int, int] = {}  # by optimizer
        self.first_step = 0

    def monitor(self, optimizer: nn.Optimizer) -> None:
        """Follow an optimizer; CollectorError for anything else."""
        if not isinstance(optimizer, nn.Optimizer):
            raise CollectorError("monitor() takes a mindspore.nn.Optimizer.")
        names = [one.name for one in optimizer.parameters]
        for name in sorted(set(self._settings.names) - set(names)):
            _log.warning("param_list names %s, which the optimizer does not train.", name)

        def before(_: nn.Cell, given: tuple[Any, ...]) -> None:
            try:
                self._record(id(optimizer), names, given[0])
            except Exception as error:  # the training goes on
                pass_on_if_of_signal(error)
                _log.warning("Gradients are not recorded any more: %s", error)
                self.stop()

        self._next[id(optimizer)] = 0
        self._handles.append(optimizer.register_forward_pre_hook(before))

    def stop(self) -> None:
        """Follow nothing any more."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _record(self, optimizer: int, names: Sequence[str], given: Sequence[Any]) -> None:
        step = self.first_step + self._next[optimizer]
        self._next[optimizer] += 1
        rank = get_rank() if GlobalComm.INITED else 0
        selected = not self._config.step or step in self._config.step
        if not selected or (self._config.rank and rank not in self._config.rank):
            return
        directory = self._config.dump_path / f"rank{rank}"
        rows = []
        for name, gradient in zip(names, given, strict=True):
            if self._settings.names and name not in self._settings.names:
                continue
            array = _array(gradient)
            rows.append(row(name, array, self._settings))
            if self._settings.with_signs:
                self._write_signs(directory / f"step{step}", name, array)
            if self._settings.sketch:
                self._write_sketch(directory / f"step{step}", name, array)
        write_table(directory / f"grad_summary_{step}.csv", self._settings, rows)

    def _write_signs(self, folder: Path, name: str, array: NDArray[Any]) -> None:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        positive = array > 0
        if self._settings.sign_format == "bool":
            with replaced(folder / f"{plain_name(name)}.npy") as stream:
                np.save(stream, positive)
            return
        both = [np.packbits(one.reshape(-1)) for one in (positive, array < 0)]
        with replaced(folder / f"{plain_name(name)}.bits.npy") as stream:
            np.save(stream, np.stack(both))

    def _write_sketch(self, folder: Path, name: str, array: NDArray[Any]) -> None:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        with replaced(folder / f"{plain_name(name)}.sketch.npy") as stream:
            np.save(stream, sketch(array, self._settings.sketch))


def sketch(array: NDArray[Any], size: int) -> NDArray[np.float32]:
    """``size`` sums of elements with the places and signs of ``gradients/measure.py``."""
    flat = array.reshape(-1)
    result = np.zeros(size)
    for start in range(0, flat.size, _PIECE):
        part = flat[start : start + _PIECE].astype(np.float64)
        mixed = np.arange(start, start + part.size, dtype=np.uint64)
        for factor in _FACTORS:
            mixed = (mixed + np.uint64(1)) * np.uint64(factor)
            mixed ^= mixed >> np.uint64(29)
        turned = np.where((mixed >> np.uint64(40)) & np.uint64(1), -part, part)
        places = (mixed & np.uint64(0x7FFFFFFF)) % np.uint64(size)
        result += np.bincount(places.astype(np.int64), turned, size)
    return result.astype(np.float32)


def row(name: str, array: NDArray[Any], settings: GradientSettings) -> list[Any]:
    """The cells of one parameter."""
    cells: list[Any] = [name]
    if settings.level == "L0":
        cells.append(f"{zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}")
    flat = array.reshape(-1)
    if settings.level == "L2":
        places = np.searchsorted(np.asarray(settings.bounds, dtype=flat.dtype), flat)
        counts = np.bincount(places, minlength=len(settings.bounds) + 1)
        count = max(flat.size, 1)
        cells += [*(counts / count).tolist(), int((flat == 0).sum()) / count]
    if flat.size:
        norm = np.linalg.norm(flat.astype(np.float64)).astype(flat.dtype)
        cells += [float(flat.max()), float(flat.min()), float(norm)]
    else:
        cells += [0.0] * 3
    return [*cells, str(list(array.shape))]


def _array(gradient: Any) -> NDArray[Any]:
    """A gradient as numpy has it, in float32 or better."""
    array: NDArray[Any] = np.asarray(gradient.float().asnumpy())
    return array
