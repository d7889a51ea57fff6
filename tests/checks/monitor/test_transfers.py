"""What was sent is what arrives, part by part, and reduced parts are sums, in one run."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from msprobe_builder.facts.wording import tell
from msprobe_builder.trend.monitor import read_rank, require_ranks
from msprobe_checks.monitor.exchanges import Broken
from msprobe_checks.monitor.explain_replicas import replicas_fact
from msprobe_checks.monitor.replicas import compare_replicas
from msprobe_collector import PrecisionDebugger
from tests.checks.monitor.test_exchanges import begin
from tests.collector.processes import run_in

RANKS = 4
STEPS = 3
Program = Callable[[int, torch.Generator], None]


def numbers(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator)


def ring(rank: int, generator: torch.Generator) -> None:
    """Each to the next, several at once, which are waited for in another order."""
    behind, before = (rank + 1) % RANKS, (rank - 1) % RANKS
    into = [torch.zeros(5, 3) for _ in range(3)]
    works = [dist.irecv(one, before) for one in into]
    sent = [dist.isend(numbers(generator, 5, 3), behind) for _ in into]
    for work in [*reversed(works), *sent]:
        assert work is not None
        work.wait()


def one_after_the_other(rank: int, generator: torch.Generator) -> None:
    """One line sends to all others, one receives from them."""
    for source in range(RANKS):
        for sink in range(RANKS):
            if rank == source != sink:
                dist.send(numbers(generator, 7), sink)
            if rank == sink != source:
                dist.recv(torch.zeros(7), source)


def batches(rank: int, generator: torch.Generator) -> None:
    operations = [
        dist.P2POp(dist.isend, numbers(generator, 4), (rank + 2) % RANKS),
        dist.P2POp(dist.irecv, torch.zeros(4), (rank + 2) % RANKS),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def from_any(rank: int, generator: torch.Generator) -> None:
    """Nobody knows before whose it will be."""
    if rank:
        dist.send(numbers(generator, 3), 0)
    else:
        for _ in range(RANKS - 1):
            dist.recv(torch.zeros(3))


def from_any_and_one(rank: int, generator: torch.Generator) -> None:
    """Which of two that wait gets what came first is up to the backend."""
    if rank == 0:
        first = dist.irecv(torch.zeros(3))
        dist.recv(torch.zeros(3), 1)
        assert first is not None
        first.wait()
        for _ in range(2):
            dist.recv(torch.zeros(3), tag=4)
        dist.recv(torch.zeros(3), 2, tag=4)
    elif rank == 1:
        for _ in range(2):
            dist.send(numbers(generator, 3), 0)
    else:
        for _ in range(4 - rank):
            dist.send(numbers(generator, 3), 0, tag=4)


def tags(rank: int, generator: torch.Generator) -> None:
    """By their tags they arrive in another order than they were sent in."""
    if rank == 0:
        work = [dist.isend(numbers(generator, 6), 1, tag=tag) for tag in (3, 5)]
        for one in work:
            assert one is not None
            one.wait()
    elif rank == 1:
        for tag in (5, 3):
            dist.recv(torch.zeros(6), 0, tag=tag)


def exchanged(rank: int, generator: torch.Generator) -> None:
    """Parts of unlike lengths, then of equal ones."""
    lengths = [1 + (rank + other) % RANKS for other in range(RANKS)]
    into = torch.zeros(sum(lengths), 3)
    dist.all_to_all_single(into, numbers(generator, sum(lengths), 3), lengths, lengths)
    dist.all_to_all_single(torch.zeros(8, 2), numbers(generator, 8, 2))


def scattered(rank: int, generator: torch.Generator) -> None:  # noqa: ARG001
    dist.reduce_scatter_tensor(torch.zeros(2, 3), numbers(generator, 2 * RANKS, 3))
    parts = [numbers(generator, 5) for _ in range(RANKS)]
    dist.reduce_scatter(torch.zeros(5), parts)


def of_halves(rank: int, generator: torch.Generator) -> None:
    """Two groups by one line, and one group alone."""
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    own, first = halves[rank // 2], rank // 2 * 2
    dist.all_to_all_single(torch.zeros(4), numbers(generator, 4), group=own)
    if rank % 2:
        dist.recv(torch.zeros(9), group_src=0, group=own)
    else:
        dist.send(numbers(generator, 9), first + 1, group=own)


def kept(real: Any, *arguments: Any, **_: Any) -> Any:
    """What was there before stays: another call wrote somewhere else."""
    before = arguments[0].clone()
    result = real(*arguments)
    arguments[0].copy_(before)
    return result


def overwritten(real: Any, *arguments: Any, **_: Any) -> Any:
    """The sender's memory is used again before it is sent."""
    arguments[0][0] = 9.0
    return real(*arguments)


def exchanged_parts(real: Any, into: torch.Tensor, *arguments: Any, **_: Any) -> Any:
    """What comes from two ranks lies at each other's place."""
    result = real(into, *arguments)
    into.copy_(into.view(RANKS, 2, 2)[[1, 0, 2, 3]].view(8, 2))
    return result


def short(real: Any, into: torch.Tensor, *arguments: Any, **_: Any) -> Any:
    """The last rows do not arrive."""
    result = real(into, *arguments)
    into[-1:] = 0
    return result


def doubled(real: Any, into: torch.Tensor, *arguments: Any, **_: Any) -> Any:
    result = real(into, *arguments)
    into *= 2
    return result


def without_own(real: Any, into: torch.Tensor, given: Any, *arguments: Any, **_: Any) -> Any:
    """A rank's own part is left out."""
    result = real(into, given, *arguments)
    into -= given[dist.get_rank()] if isinstance(given, list) else given[-2:]
    return result


# What runs, which function goes wrong in step 1, on which rank, at which of its calls, and who
# then got from whom what was not given.
FAULTS: dict[str, Any] = {
    "not received": (one_after_the_other, "recv", kept, 2, 1, [2], [1]),
    "not received, from whomever": (from_any, "recv", kept, 0, 1, [0], [1, 2, 3]),
    "sent from memory in use": (one_after_the_other, "send", overwritten, 1, 2, [3], [1]),
    "parts exchanged": (exchanged, "all_to_all_single", exchanged_parts, 0, 1, [0], [0, 1]),
    "part cut off": (exchanged, "all_to_all_single", short, 3, 0, [3], [3]),
    "twice": (scattered, "reduce_scatter_tensor", doubled, 1, 0, [1], [0, 1, 2, 3]),
    "own part missing": (scattered, "reduce_scatter", without_own, 3, 0, [3], [0, 1, 2, 3]),
}
CONTROLS: dict[str, Program] = {
    one.__name__: one
    for one in (
        ring,
        one_after_the_other,
        batches,
        from_any,
        from_any_and_one,
        tags,
        exchanged,
        scattered,
        of_halves,
    )
}


def train(rank: int, directory: Path, case: str) -> None:
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(8, 8))
    state = {"step": 0, "calls": 0}
    program: Program
    if case in FAULTS:
        program, name, kernel, where, at, *_ = FAULTS[case]
        real = getattr(dist, name)

        def wrong(*arguments: Any, **keywords: Any) -> Any:
            now, state["calls"] = state["calls"], state["calls"] + 1
            is_now = state["step"] == 1 and rank == where and now == at
            return (kernel if is_now else lambda real, *a, **k: real(*a, **k))(
                real, *arguments, **keywords
            )

        setattr(dist, name, wrong)  # below what is recorded: the library itself goes wrong
    else:
        program = CONTROLS[case]
    begin(directory, rank, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        state.update(step=step, calls=0)
        model(numbers(generator, 3, 8)).square().sum().backward()
        program(rank, generator)
        optimizer.step()
        optimizer.zero_grad()
    PrecisionDebugger.close()


@pytest.mark.parametrize("case", FAULTS)
def test_what_is_not_what_was_given_is_named(tmp_path: Path, case: str) -> None:
    run_in(RANKS, train, tmp_path, case)
    replicas = compare_replicas(tmp_path / "run")
    found = replicas.exchange
    _, name, _, _, _, ranks, others = FAULTS[case]
    assert found is not None
    assert (found.step, list(found.ranks)) == (1, ranks)
    assert set(found.others) <= set(others)
    is_sum = "reduce" in name
    assert found.broken is (Broken.NO_SUM if is_sum else Broken.NOT_RECEIVED)
    line = {"send": "recv"}.get(name, name)  # that of whoever got it
    assert found.name.startswith(f"{line} test_transfers.py:")
    assert ("is not what that rank gave" in tell(replicas_fact(replicas), "en")) is not is_sum


@pytest.mark.parametrize("case", CONTROLS)
def test_nothing_is_said_of_correct_programs(tmp_path: Path, case: str) -> None:
    run_in(RANKS, train, tmp_path, case)
    folders = require_ranks(tmp_path / "run")
    ways = {
        name.split()[-3]
        for one in folders.values()
        for _, name in read_rank(one).targets
        if " given to " in name or " got from " in name
    }
    assert ways == {"scattered": {"given"}}.get(case, {"given", "got"})
    found = compare_replicas(tmp_path / "run")
    assert (found.exchange, found.together, found.parted) == (None, None, None)
