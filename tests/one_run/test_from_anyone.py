"""What processes over gloo receive from whomever is found as what was sent."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist

from msprobe_builder.database.read.verdict import Verdict
from tests.builder.invariants.sketched_ranks import counts_of, verdict_on
from tests.collector.processes import run_in
from tests.one_run.programs import Block, debugger_of

WORLD = 3


def numbers(rank: int, message: int) -> torch.Tensor:
    """Of the ranks the same in another order, so that no statistic tells whose they are."""
    chance = torch.Generator().manual_seed(message)
    return torch.randn(40, 8, generator=chance).roll(rank * 7, 0)


def train(rank: int, path: str) -> None:
    """To process 0 all others send: some of it is received by name, some from anyone."""
    torch.manual_seed(3)
    model = Block()
    debugger = debugger_of(path)
    with debugger.start(model):
        model(torch.ones(4, 16)).sum().backward()
        if rank:
            for message in range(4):
                dist.send(numbers(rank, message), 0)
            dist.send(numbers(rank, 4), 0, tag=1)
        else:
            for source in (None, 1, None, None, 2, None):
                got = torch.zeros(40, 8)
                dist.recv(got, source)
            works = [dist.irecv(torch.zeros(40, 8)) for _ in range(2)]
            for work in reversed(works):
                assert work is not None
                work.wait()
            for _ in range(2):
                got = torch.zeros(40, 8)
                dist.recv(got, tag=1)
        behind, before = (rank + 1) % WORLD, (rank - 1) % WORLD
        around = torch.zeros(40, 8)
        for work in dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, numbers(rank, 5), behind),
                dist.P2POp(dist.irecv, around, before),
            ]
        ):
            work.wait()
    debugger.close()


def verdict_of(folder: Path) -> Verdict:
    run_in(WORLD, train, str(folder / "run"))
    return verdict_on(folder, folder / "run" / "dump" / "step0")


def test_nobody_is_accused(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path)
    assert verdict.suspects == ()
    assert counts_of(verdict)["transfers"] == 13
