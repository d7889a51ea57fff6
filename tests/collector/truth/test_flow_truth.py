"""Every recorded maker is the true one.

Two independent paths: an observer keeps every tensor of every call alive, so that no object and no
memory is used twice, and asks which call put out that very tensor; and the saved numbers of each
tensor are compared with those of its maker, of a gradient with the sum of what its makers sent.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
import torch

from msprobe_builder.dump.flow_layout import Maker, Mark, Place
from msprobe_collector import PrecisionDebugger
from msprobe_collector.record.items import collect_tensors
from msprobe_collector.record.session import Session
from tests.cases import REPEATED, tried_first
from tests.collector.recorded_flow import At, Makers, flow_of, item_at, items_of
from tests.collector.recording import Dump, read_dump, write_config
from tests.collector.truth.test_truth import MODELS, built
from tests.collector.truth.trainings import TRAININGS

CASES = [
    *(("llama", training) for training in TRAININGS),
    *((model, "accumulation") for model in ("mixtral", "resnet", "vit", "gru")),
]
ALL = [
    (model, training)
    for model in MODELS
    for training in TRAININGS
    if (model, training) not in [*CASES, ("mixtral", "mixed precision")]
]


Build: TypeAlias = Callable[[], tuple[torch.nn.Module, Any]]


class Seen(NamedTuple):
    """A call that is over."""

    name: str
    is_module: bool
    given: list[Any]
    is_written: list[bool]  # by tensor that it was given
    put_out: list[Any]


def shard_of(tensor: Any) -> torch.Tensor:
    """What this process holds of a distributed tensor; that has no memory of its own."""
    for name in ("_local_tensor", "elem"):  # the latter of what is still on its way
        tensor = getattr(tensor, name, tensor)
    shard: torch.Tensor = tensor
    return shard


class Observer:
    """Which tensors each call was given and put out, in the order of time; all stay alive."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[Seen] = []
        enter, leave = Session.enter, Session.leave
        before: dict[Any, list[tuple[Any, int, torch.Tensor]]] = {}

        def entered(
            session: Any, call: Any, args: Any, kwargs: Any, *rest: Any, **more: Any
        ) -> Any:
            pending = enter(session, call, args, kwargs, *rest, **more)
            found: list[Any] = []
            collect_tensors((list(args), dict(kwargs)), found)
            shards = [shard_of(one) for one in found]
            before[pending] = [
                (one, shard._version, shard.clone())
                for one, shard in zip(found, shards, strict=True)
            ]
            return pending

        def left(session: Any, pending: Any, result: Any, parameters: Any) -> None:
            found: list[Any] = []
            collect_tensors(result, found)
            written = [
                shard_of(one)._version != version or not torch.equal(shard_of(one), copy)
                for one, version, copy in before[pending]
            ]
            given = [one for one, _, _ in before[pending]]
            call = pending.call
            self.calls.append(Seen(call.forward_name, bool(call.path), given, written, found))
            leave(session, pending, result, parameters)

        monkeypatch.setattr(Session, "enter", entered)
        monkeypatch.setattr(Session, "leave", left)

    def makers(self) -> dict[At, At]:
        """By place of an input that very tensor which a call before put out, last written there.

        A call that puts out what it was given, unwritten, has not made it. Where another call wrote
        to the memory since, nothing is said.
        """
        made: dict[int, At] = {}  # by identity
        memory: dict[int, list[int]] = {}  # the tensors in each
        found: dict[At, At] = {}
        for name, is_module, given, written, put_out in self.calls:
            if not is_module:  # inputs of modules are asked for when they are over
                for position, tensor in enumerate(given):
                    if id(tensor) in made:
                        found[At(name, Place.INPUT, position)] = made[id(tensor)]
                changed = [
                    one for one, is_written in zip(given, written, strict=True) if is_written
                ]
                for tensor in changed:
                    for other in memory.get(shard_of(tensor).untyped_storage().data_ptr(), ()):
                        made.pop(other, None)
                for position, tensor in enumerate(put_out):
                    is_same = any(tensor is one for one in given)
                    if not is_same or any(tensor is one for one in changed):
                        made[id(tensor)] = At(name, Place.OUTPUT, position)
                    inside = memory.setdefault(shard_of(tensor).untyped_storage().data_ptr(), [])
                    inside.append(id(tensor))
            else:
                for position, tensor in enumerate(put_out):
                    if id(tensor) in made:
                        found[At(name, Place.OUTPUT, position)] = made[id(tensor)]
        return found


def recorded(
    build: Build, training: str, level: str, path: Path, rank: str = "rank", **more: Any
) -> list[Dump]:
    net, data = build()
    config = write_config(path, level=level, **more)
    debugger = PrecisionDebugger(config_path=config)

    @contextmanager
    def window() -> Iterator[None]:
        debugger.start(net)
        yield
        debugger.stop()
        debugger.step()

    torch.manual_seed(5)
    TRAININGS[training](net, data, window)
    debugger.close()
    return [read_dump(step / rank) for step in sorted((path / "dump").iterdir())]


@pytest.mark.parametrize(("model", "training"), CASES)
def test_makers_put_out_that_very_tensor(
    model: str, training: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_identity(partial(built, model), training, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "training"), ALL)
def test_all_makers_put_out_that_very_tensor(
    model: str, training: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_identity(partial(built, model), training, tmp_path, monkeypatch)


def check_identity(
    build: Build,
    training: str,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rank: str = "rank",
) -> None:
    observer = Observer(monkeypatch)
    starts: list[int] = []
    begin = Session.begin

    def began(session: Any, directory: Path) -> None:
        starts.append(len(observer.calls))
        begin(session, directory)

    monkeypatch.setattr(Session, "begin", began)
    dumps = recorded(build, training, "mix", path, rank, statistics={"flow": True})
    calls = observer.calls
    for dump, first, last in zip(dumps, starts, [*starts[1:], len(calls)], strict=True):
        observer.calls = calls[first:last]
        flow = flow_of(dump)
        truth = observer.makers()
        assert len(truth) > 30
        for at, maker in truth.items():
            if at in flow:
                assert flow[at].first.at == maker, at
            else:
                assert (at.section, at.record) == (Place.OUTPUT, maker.record)


class Saved:
    """The tensors of a dump, from its one file."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        folder = dump.directory / "dump_tensor_data"
        self._index = json.loads((folder / "index.json").read_text())
        self._content = bytearray((folder / "tensors.bin").read_bytes())

    def numbers(self, at: At) -> torch.Tensor:
        entry = self._index[item_at(self.dump, at)["data_name"]]
        kind = getattr(torch, entry["dtype"].removeprefix("torch."))
        count = math.prod(entry["shape"])
        if not count:
            return torch.empty(entry["shape"])
        flat = torch.frombuffer(self._content, dtype=kind, count=count, offset=entry["offset"])
        return flat.reshape(entry["shape"]).double()


@pytest.mark.parametrize(
    ("model", "training", "level"),
    tried_first(
        [
            *(("llama", "accumulation", "mix"), ("resnet", "accumulation", "L0")),
            *(("llama", "accumulation", "L0"), ("resnet", "accumulation", "mix")),
            *(("llama", "plain", "mix"), ("llama", "plain", "L0")),
        ],
        2,
        REPEATED,
    ),
)
def test_numbers_are_those_of_the_makers(
    model: str, training: str, level: str, tmp_path: Path
) -> None:
    told = 0
    build = partial(built, model)
    for dump in recorded(build, training, level, tmp_path, task="tensor", tensor={"flow": True}):
        flow, saved = flow_of(dump), Saved(dump)
        for at, makers in flow.items():
            told += check_numbers(saved, at, makers)
        check_every_input_has_a_row(dump, flow)
    assert told > (300 if level == "mix" else 30)


def check_numbers(saved: Saved, at: At, makers: Makers) -> bool:
    """Whether something could be checked."""
    if makers.marks & Mark.INCOMPLETE or any(one.at is None for one in makers.all):
        return False
    if at == makers.first.at or any(one.at.section == Place.INPUT for one in makers.all if one.at):
        return False  # itself, or an argument, shown as it was before the maker wrote to it
    here = saved.numbers(at)
    parts = [saved.numbers(one.at) for one in makers.all if one.at is not None]
    if makers.marks & Mark.SUM:
        total = sum(parts[1:], parts[0])
        assert torch.allclose(here, total, rtol=1e-2, atol=1e-5 * float(total.abs().max())), at
    elif makers.marks & Mark.VIEW:
        values = set(torch.cat([part.reshape(-1) for part in parts]).tolist())
        assert set(here.reshape(-1).tolist()) <= values, at
    else:
        assert len(parts) == 1
        assert torch.equal(here, parts[0]), at
    return True


def check_every_input_has_a_row(dump: Dump, flow: dict[At, Makers]) -> None:
    for name in dump.data:
        sections = [Place.INPUT, Place.PARAMETERS]
        if "parameters_grad" in name:
            sections = [Place.PARAMETERS_GRAD]
        for section in sections:
            for position in range(len(items_of(dump, name, section))):
                makers = flow[At(name, section, position)]
                assert makers.first.kind != Maker.UNKNOWN, (name, section, position)
