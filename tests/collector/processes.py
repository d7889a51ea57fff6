"""Run a function in a few processes that talk over gloo."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from tests.processes import COPIES


def run_in_two(work: Callable[..., None], *arguments: Any) -> None:
    """``work(rank, *arguments)`` in both; an exception in one fails the caller."""
    run_in(2, work, *arguments)


def run_in(world: int, work: Callable[..., None], *arguments: Any) -> None:
    """``work(rank, *arguments)`` in ``world`` processes; an exception in one fails the caller."""
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        mp.start_processes(  # type: ignore[attr-defined]
            _enter,
            (world, work, meeting, arguments),
            nprocs=world,
            start_method=COPIES.get_start_method(),
        )


def _enter(
    rank: int, world: int, work: Callable[..., None], meeting: str, arguments: tuple[Any, ...]
) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", rank=rank, world_size=world, init_method=f"file://{meeting}")
    try:
        work(rank, *arguments)
        dist.barrier()  # gloo aborts a process whose peer leaves in the middle of a call
    finally:
        dist.destroy_process_group()
