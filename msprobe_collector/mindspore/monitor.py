"""The monitor of MindSpore: what Cells do, and what optimizers use and keep at each call."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from mindspore import nn
from mindspore.communication import GlobalComm, get_rank
from numpy.typing import NDArray

from msprobe_builder.sketch.definition import FLAT, sketch_of
from msprobe_collector.config.monitor import KINDS
from msprobe_collector.config.settings import Config
from msprobe_collector.config.switch import Switch
from msprobe_collector.errors import CollectorError
from msprobe_collector.mindspore import activations
from msprobe_collector.monitor.alerts import Rules
from msprobe_collector.monitor.numbers import Numbers, single
from msprobe_collector.monitor.row import Row, joined
from msprobe_collector.monitor.write import Writer
from msprobe_collector.signals import pass_on_if_of_signal

_log = logging.getLogger("msprobe_collector")
_ORDER = {kind: place for place, kind in enumerate(KINDS)}
SEEN = (
    *("weight", *activations.KINDS, "gradient", "learning_rate", "optimizer_state"),
    "updated_weight",
)


class Monitor:
    """Follows optimizers from ``monitor`` to ``stop``; a step is a call of the optimizer.

    The training goes on whatever becomes of the record.
    """

    def __init__(self, config: Config, switch: Switch | None = None) -> None:
        """``switch`` says at each step whether it is recorded."""
        assert config.monitor is not None
        self._settings, self._config, self._switch = config.monitor, config, switch
        unseen = [kind for kind in self._settings.record if kind not in SEEN]
        if unseen and not self._settings.records_all:
            raise CollectorError(
                f"monitor.record names {', '.join(unseen)}, which MindSpore does not show here;"
                f" choose some of {', '.join(SEEN)}."
            )
        self._handles: list[Any] = []
        self._next: dict[int, int] = {}  # by optimizer
        self._rows: dict[int, list[Row]] = {}
        self._open: dict[tuple[str, str], list[Numbers]] = {}  # of Cells, since the last call
        # Rows of sketches, which numbers name until they are written.
        self._sums: list[NDArray[np.float32]] | None = [] if self._settings.sketches else None
        self._rules = Rules(self._settings.alerts)
        self._alerts: Counter[str] = Counter()
        self._writer: Writer | None = None
        self.first_step = 0

    def monitor(self, optimizer: nn.Optimizer, model: nn.Cell | None = None) -> None:
        """Follow an optimizer, and the Cells of a model; CollectorError for anything else."""
        if not isinstance(optimizer, nn.Optimizer):
            raise CollectorError("monitor() takes a mindspore.nn.Optimizer.")
        if model is not None and not isinstance(model, nn.Cell):
            raise CollectorError("monitor() takes a mindspore.nn.Cell beside the optimizer.")
        missed = [one for one in activations.KINDS if one in self._settings.record]
        if model is None and missed and not self._settings.records_all:
            raise CollectorError(
                f"monitor.record names {', '.join(missed)}: call monitor(optimizer, model)."
            )
        self._next[id(optimizer)] = 0
        self._handles += [
            optimizer.register_forward_pre_hook(lambda _, given: self._before(optimizer, given)),
            optimizer.register_forward_hook(lambda _, __, ___: self._after(optimizer)),
        ]
        if model is not None:
            self._handles += activations.follow_cells(model, self._settings, self._take)

    def stop(self) -> None:
        """Finish the files and follow nothing any more."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._open.clear()
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()
        for rule, count in self._alerts.items():
            if count > 1:
                _log.warning("Monitor: rule %s was broken %d times.", rule, count)
        self._alerts.clear()

    def _take(self, kind: str, name: str, tensor: Any) -> None:
        """What a Cell shows, of all micro-batches together; nothing after :meth:`stop`."""
        try:
            if self._handles and self._selects(self.first_step + min(self._next.values())):
                self._open.setdefault((kind, name), []).append(measure(tensor, self._sums))
        except Exception as error:
            self._fail(error)

    def _before(self, optimizer: nn.Optimizer, given: tuple[Any, ...]) -> None:
        try:
            step = self.first_step + self._next[id(optimizer)]
            self._next[id(optimizer)] += 1
            if self._selects(step):
                own = [(one.name, one) for one in optimizer.parameters]
                names = [name for name, _ in own]
                pairs = list(zip(names, given[0], strict=True))
                self._rows[id(optimizer)] = [
                    *self._measured("weight", own),
                    *self._of_cells(),
                    *self._measured("gradient", pairs),
                ]
            else:
                self._forget_sketches()
            self._open.clear()
        except Exception as error:
            self._fail(error)

    def _of_cells(self) -> Iterator[Row]:
        sums = self._sketched()
        for (kind, name), parts in self._open.items():
            yield joined(kind, name, parts, sums)
            if self._settings.micro_batches and len(parts) > 1:
                for at, one in enumerate(parts):
                    yield joined(kind, f"{name}@{at}", [one], sums)

    def _sketched(self) -> NDArray[np.float32] | None:
        return None if self._sums is None else np.array(self._sums).reshape(-1, FLAT)

    def _forget_sketches(self) -> None:
        if self._sums is not None:
            self._sums.clear()

    def _after(self, optimizer: nn.Optimizer) -> None:
        rows = self._rows.pop(id(optimizer), None)
        if rows is None:
            return
        try:
            rates = optimizer.get_lr()
            listed = rates if isinstance(rates, list | tuple) else [rates]
            for number, rate in enumerate(listed):
                name = f"group{number}"
                if self._settings.wants("learning_rate", name):
                    rows.append(Row("learning_rate", name, single(float(rate.asnumpy()))))
            rows += self._measured("optimizer_state", _states(optimizer))
            own = [(one.name, one) for one in optimizer.parameters]
            rows += self._measured("updated_weight", own)
            rows.sort(key=lambda row: _ORDER[row.kind])
            self._write(self.first_step + self._next[id(optimizer)] - 1, rows)
            self._forget_sketches()
        except Exception as error:
            self._fail(error)

    def _selects(self, step: int) -> bool:
        chosen = not self._config.step or step in self._config.step
        if not chosen or not self._settings.selects(step):
            return False
        if self._config.rank and _rank() not in self._config.rank:
            return False
        return self._switch is None or self._switch.is_on()

    def _measured(self, kind: str, tensors: Sequence[tuple[str, Any]]) -> Iterator[Row]:
        for name, tensor in tensors:
            if self._settings.wants(kind, name) and tensor.is_floating_point() and tensor.size:
                found = measure(tensor, self._sums)
                yield joined(kind, name, [found], self._sketched())

    def _write(self, step: int, rows: Sequence[Row]) -> None:
        alerts = [alert for row in rows if (alert := self._rules.judge(step, row)) is not None]
        for alert in alerts:
            self._alerts[alert.rule] += 1
            if self._alerts[alert.rule] == 1:
                _log.warning("Monitor: at step %d %s", step, alert.sentence)
        if self._writer is None:
            directory = self._config.dump_path / "monitor" / f"rank{_rank()}"
            self._writer = Writer(
                directory, self._settings.formats, step, with_sketches=self._settings.sketches
            )
        self._writer.step(step, rows, alerts)

    def _fail(self, error: Exception) -> None:
        pass_on_if_of_signal(error)
        _log.warning("The training is not monitored any more: %s", error)
        self.stop()


def measure(tensor: Any, sums: list[NDArray[np.float32]] | None = None) -> Numbers:
    """The numbers of a tensor of floating-point numbers that is not empty.

    Its sketch is added to ``sums``.
    """
    array = np.asarray(tensor.float().asnumpy())
    flat = array.reshape(-1).astype(np.float64)
    if sums is not None:
        sums.append(sketch_of(array).numbers[:FLAT])
    nans = int(np.isnan(flat).sum())
    return Numbers(
        float(np.square(flat).sum()),
        float(flat.sum()),
        float(flat.max()),
        float(flat.min()),
        int((flat == 0).sum()),
        nans,
        flat.size,
        sketch=-1 if sums is None else len(sums) - 1,
    )


def _states(optimizer: nn.Optimizer) -> list[tuple[str, Any]]:
    """What an optimizer keeps of each parameter: ``moment1.up.weight`` as ``up.weight:moment1``."""
    names = {one.name for one in optimizer.parameters}
    found = []
    for name, state in optimizer.parameters_and_names():
        kind, _, parameter = state.name.partition(".")
        if parameter in names and name not in names:
            found.append((f"{parameter}:{kind}", state))
    return found


def _rank() -> int:
    return int(get_rank()) if GlobalComm.INITED else 0
