"""Compares ranks that are replicas while they train, and saves the first calls that differ.

The first of them keeps a journal of what must be alike, the others read it. Nothing is sent by
the training's groups, and who reads waits a bounded time: no rank can keep another.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from msprobe_builder.dump.names import without_wrappers
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_collector.coordinates import replicas_of
from msprobe_collector.process import process_rank
from msprobe_collector.record.items import Items
from msprobe_collector.record.sketches import Sketches
from msprobe_collector.signals import pass_on_if_of_signal
from msprobe_collector.unseen import unseen
from msprobe_collector.watch.agreement import (
    Subject,
    Why,
    is_drawn,
    is_given_otherwise,
    judged,
    subject_of,
    unlike,
)
from msprobe_collector.watch.differing import Difference, Pair, shares_of
from msprobe_collector.watch.following import Following, Lines, size_fact
from msprobe_collector.watch.journal import CALLS, UPDATES, Entry, Exchange
from msprobe_collector.watch.reference import Shown
from msprobe_collector.write.tensor_files import TensorFiles

_log = logging.getLogger("msprobe_collector")
_PATIENCE = 5.0  # seconds that a rank waits where it pauses for the first one's journal
_MOST_WAITS = 3  # in vain, until it waits no more
_FAR = 0.5  # of its size: two parameters that have nothing to do with each other are 1.4 apart
_STRANGERS = 0.25  # share of parameters so far apart with which ranks are no replicas


class ReplicaWatch(Following):
    """Compares the records of one process with those of the first of its replicas."""

    def __init__(
        self,
        models: Callable[[], Sequence[nn.Module]],
        ranks: Sequence[int],
        most: int,
        level: str,
        framework: str,
    ) -> None:
        """``ranks`` are recorded, all where there are none; save ``most`` calls that differ."""
        super().__init__(most, level, framework)
        self._models, self._chosen = models, ranks
        self._peers: list[int] | None = None  # None until a step begins
        self._are_known = True  # to be replicas, not just thought to be
        self._waits = 0  # in vain, one after the other
        self._items = Items("statistics", TensorFiles())  # of parameters when optimizers step
        self._items.sketches = Sketches(is_flat=True)
        self._parameters: dict[int, tuple[str, str]] = {}  # modules and names, by identity
        self._world: list[int] = []
        self._hook: Any = None
        self._exchanges: tuple[Exchange, Exchange] | None = None  # of calls, of updates

    # -- a step -------------------------------------------------------------------------------

    def open_step(self, directory: Path) -> None:
        """The step that is written into ``directory`` begins, or goes on."""
        if self._directory == directory:
            return
        self._directory = directory
        self._forget()
        if self._peers is None:
            self._find_peers()
        if not self._peers:
            return
        first, rank = self._peers[0], process_rank()
        other = None if first == rank else directory.with_name(f"rank{first}")
        calls, updates = (
            Exchange(directory / name, None if other is None else other / name)
            for name in (CALLS, UPDATES)
        )
        self._exchanges = calls, updates
        self._world = list(range(dist.get_world_size()))
        self._parameters = dict(_named(self._models()))
        if self._hook is None:
            self._hook = register_optimizer_step_pre_hook(self._stepping)

    def _find_peers(self) -> None:
        ranks, self._are_known = replicas_of(self._models())
        self._peers = [one for one in ranks if not self._chosen or one in self._chosen]
        if len(self._peers) < 2 or process_rank() not in self._peers:
            self._peers = []
            _log.warning(
                "Ranks are not compared: no recorded rank holds the parameters of this one."
            )

    def _forget(self) -> None:
        super()._forget()
        self._waiting: list[tuple[str, Mapping[str, Any]]] = []
        self._stepping_now: list[Subject] = []
        self._pending: tuple[list[Subject], list[Subject]] = ([], [])
        self._windows = 0  # that have ended
        self._steps: dict[int, int] = {}  # how often each parameter was changed
        self._alike: set[str] = set()  # forward calls that made the same of the same
        self._lines: Lines = lambda _: []

    @property
    def _compares(self) -> bool:
        return self._exchanges is not None and self._exchanges[0].reader is not None

    def end_step(self) -> None:
        """Say what was found in it."""
        self.compare(self._lines, is_over=True)
        self._finish_files()
        if self._first is not None:
            self.found.append(self._first)
            self._peers = []  # what differs from here on may come of it
        for one in self._exchanges or ():
            one.close()
        self._exchanges = None
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        self._directory = Path()
        self._parameters = {}
        self._items.forget_step()
        if self._items.sketches is not None:
            self._items.sketches.end_step()
        self._forget()

    # -- what is recorded ---------------------------------------------------------------------

    def add(self, name: str, record: Mapping[str, Any]) -> None:
        """A record was made; its numbers may be on their way."""
        if self._exchanges is not None:
            self._waiting.append((name, record))

    def take(self, rows: npt.NDArray[Any]) -> None:
        """The sketches that come next."""
        if self._exchanges is not None:
            self._exchanges[0].take(rows)

    def _stepping(self, optimizer: Optimizer, *_: Any) -> None:
        """An optimizer is about to step: note what it is given."""
        try:
            with unseen():
                for group in optimizer.param_groups:
                    for parameter in group["params"]:
                        self._note(parameter)
        except Exception as error:
            pass_on_if_of_signal(error)
            self._give_up(error)

    def _note(self, parameter: Any) -> None:
        place = self._parameters.get(id(parameter))
        if place is None or self._exchanges is None or parameter.grad is None:
            return
        module, name = place
        number = self._steps[id(parameter)] = self._steps.get(id(parameter), 0) + 1
        item: Any = self._items.tensor(parameter.grad)
        stem = f"Module.{module}.parameters_grad"
        self.hold(f"{stem}.{name}", parameter.grad, item)
        whole = f"{module}.{name}" if module else name
        entry = Entry(f"{whole}|{number}", 0, [Shown(whole, True, item, item.row)])
        record = {name: [item]}
        self._stepping_now.append(Subject(stem, record, Why.GRADIENT, entry))

    # -- comparing ----------------------------------------------------------------------------

    def compare(self, lines: Lines, is_over: bool) -> None:
        """Write or compare what came since the last time; wait for the first rank if it's over."""
        if self._exchanges is None:
            return
        self._lines = lines
        try:
            self._collect()
            if self._compares:
                self._compare(lines, is_over)
            else:
                for exchange, pending in zip(self._exchanges, self._pending, strict=True):
                    exchange.write([one.entry for one in pending], is_over=is_over)
                    pending.clear()
        except Exception as error:
            pass_on_if_of_signal(error)
            self._give_up(error)

    def _collect(self) -> None:
        """What must be alike of the records that have their numbers."""
        assert self._exchanges is not None
        waiting, self._waiting = self._waiting, []
        calls, updates = self._exchanges
        for number, (name, record) in enumerate(waiting):
            subject = subject_of(name, record, self._keys, self._world)
            if subject is None:
                continue
            if any(one.row >= len(calls.rows) for one in subject.entry.shown):
                self._waiting = waiting[number:] + self._waiting
                break
            self._pending[0].append(subject)
        if self._stepping_now:
            stepping, self._stepping_now = self._stepping_now, []
            self._items.settle()
            assert self._items.sketches is not None
            updates.take(self._items.sketches.take())
            self._pending[1].extend(stepping)

    def _compare(self, lines: Lines, is_over: bool) -> None:
        assert self._exchanges is not None
        self._windows += is_over
        is_told = True
        for exchange, pending in zip(self._exchanges, self._pending, strict=True):
            assert exchange.reader is not None
            patience = _PATIENCE if is_over and pending and self._waits < _MOST_WAITS else 0.0
            is_told = exchange.reader.wait_for(self._windows, patience) and is_told
            if patience:
                self._waits = 0 if is_told else self._waits + 1
            self._judge(exchange, pending, lines)
            if exchange.reader.windows >= self._windows and is_over:
                self.missing += len(pending)  # the other rank has not made them
                pending.clear()
        if self.is_full or not any(self._pending):
            self._let_go()

    def _judge(self, exchange: Exchange, pending: list[Subject], lines: Lines) -> None:
        """Compare those that the first rank has written; the others stay in ``pending``."""
        known = exchange.reader
        assert known is not None
        found: list[tuple[Subject, list[Pair]]] = []
        left: list[Subject] = []
        for one in pending:
            entry = known.entries.get(one.entry.key)
            if entry is None:
                left.append(one)
            elif one.why is Why.CALL and is_given_otherwise(one.entry, entry):
                continue
            elif _may_be_compared(one, entry):
                found.append((one, list(zip(one.entry.shown, entry.shown, strict=True))))
            else:
                self.missing += 1
        pending[:] = left
        shares = shares_of([pair for _, pairs in found for pair in pairs], exchange.rows, known)
        self.compared += len(found)
        if not self._are_known and not self._are_replicas(found, shares):
            return
        at = 0
        for subject, pairs in found:
            of_this = shares[at : at + len(pairs)]
            at += len(pairs)
            difference = self._difference(subject, pairs, of_this)
            if difference is not None:
                self._tell(subject, difference, lines)

    def _are_replicas(
        self, found: Sequence[tuple[Subject, list[Pair]]], shares: Sequence[float]
    ) -> bool:
        """Whether most parameters are alike, so that those that are not are wrong."""
        held = [one.why is Why.PARAMETER for one, pairs in found for _ in pairs]
        far = [share > _FAR for share, is_held in zip(shares, held, strict=True) if is_held]
        if sum(far) > _STRANGERS * len(far):
            assert self._peers
            _log.warning(
                "Rank %s is not compared with rank %d: %d of %d parameters are others, so it is "
                "taken for no replica.",
                *(process_rank(), self._peers[0], sum(far), len(far)),
            )
            self._peers, self._exchanges, self.compared = [], None, 0
            return False
        self._are_known = bool(far)
        return self._are_known

    def _difference(
        self, subject: Subject, pairs: Sequence[Pair], shares: Sequence[float]
    ) -> Difference | None:
        if subject.why is not Why.CALL:
            return unlike(pairs, shares)
        is_given_alike, difference = judged(subject.name, pairs, shares)
        if not is_given_alike or is_drawn(subject):
            return None
        if subject.name.endswith(".backward"):
            # It reads what the forward call has kept as well.
            is_known = subject.name.replace(".backward", ".forward") in self._alike
            return difference if is_known else None
        if difference is None:
            self._alike.add(subject.name)
        return difference

    # -- what differs -------------------------------------------------------------------------

    def _tell(self, subject: Subject, difference: Difference, lines: Lines) -> None:
        if self._first is None:
            self._first = self._fact(subject, difference, lines)
            _log.warning("%s", tell(self._first, ENGLISH))
        self._take_down(subject.name, subject.record, True, lines)

    def _fact(self, subject: Subject, difference: Difference, lines: Lines) -> Fact:
        assert self._peers
        told: dict[str, Any] = {
            "place": f"{self._directory.parent.name}/{self._directory.name}",
            "call": subject.name,
            "tensor": difference.where,
            "size": size_fact(difference.share),
            "rank": self._peers[0],
            "replicas": len(self._peers),
        }
        if subject.why is Why.PARAMETER:
            return fact("run.replica_parameter", **told)
        if subject.why is Why.GRADIENT:
            return fact("run.replica_gradient", **told)
        is_call = subject.why is Why.CALL
        why = fact("run.given_the_same") if is_call else fact("run.group_gets_alike")
        return fact("run.replica_call", **told, why=why, line=self._line(subject.name, lines))

    def _give_up(self, error: Exception) -> None:
        _log.warning("Ranks are not compared any more: %r", error)
        self._peers, self._exchanges = [], None
        self._let_go()


def _may_be_compared(subject: Subject, other: Entry) -> bool:
    own = subject.entry
    return own.plain == other.plain and [one.is_made for one in own.shown] == [
        one.is_made for one in other.shown
    ]


def _named(models: Sequence[nn.Module]) -> Iterator[tuple[int, tuple[str, str]]]:
    """By identity of each parameter the path of its module and its name there."""
    for number, model in enumerate(models):
        begin = "" if len(models) == 1 else str(number)
        for path, module in model.named_modules():
            whole = without_wrappers(".".join(part for part in (begin, path) if part))
            for name, parameter in module.named_parameters(recurse=False):
                yield id(parameter), (whole, name)
