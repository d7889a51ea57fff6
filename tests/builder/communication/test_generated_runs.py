"""Every collective in every call style, really run and recorded in two and four processes."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

from msprobe_builder import BuildConfig, build  # noqa: E402
from msprobe_collector import PrecisionDebugger  # noqa: E402
from tests.cases import REPEATED, tried_first  # noqa: E402
from tests.collector.processes import run_in  # noqa: E402

# A call, and the ranks it must be linked with; ``rank`` is the caller's.
Step = tuple[Callable[[], Any], set[int]]


def wait(request: dist.Work | None) -> None:
    assert request is not None
    request.wait()


def steps(rank: int, world: int) -> Iterator[Step]:
    """Calls in the order in which every rank makes them."""
    everyone = set(range(world)) - {rank}
    pair = dist.new_group([0, 1])
    a = torch.arange(4.0) + rank
    parts = [torch.zeros(4) for _ in range(world)]
    flat, own = torch.zeros(4 * world), torch.zeros(4)

    def rooted(root: int) -> set[int]:
        return everyone if rank == root else {root}

    def whole() -> Any:
        return torch.arange(4.0 * world) + rank

    yield lambda: dist.all_reduce(a.clone()), everyone
    yield lambda: dist.all_reduce(a.clone(), dist.ReduceOp.MAX, dist.group.WORLD), everyone
    yield lambda: dist.all_reduce(tensor=a.clone(), group=dist.group.WORLD), everyone
    yield lambda: dist.broadcast(a.clone(), 0), rooted(0)
    yield lambda: dist.broadcast(a.clone(), src=1), rooted(1)
    yield lambda: dist.broadcast(tensor=a.clone(), src=1, group=dist.group.WORLD), rooted(1)
    yield lambda: dist.reduce(a.clone(), 1), rooted(1)
    yield lambda: dist.reduce(a.clone(), dst=0, group=dist.group.WORLD), rooted(0)
    yield lambda: dist.gather(a, parts if rank == 0 else None, 0), rooted(0)
    yield lambda: dist.gather(a, gather_list=parts if rank == 1 else None, dst=1), rooted(1)
    yield lambda: dist.scatter(own, parts if rank == 0 else None), rooted(0)
    yield lambda: dist.scatter(own, parts if rank == 1 else None, src=1), rooted(1)
    yield lambda: dist.all_gather(parts, a), everyone
    yield lambda: dist.all_gather_into_tensor(flat, a), everyone
    yield lambda: dist.all_gather_into_tensor(output_tensor=flat, input_tensor=a), everyone
    yield lambda: dist.reduce_scatter(own, [a] * world), everyone
    yield lambda: dist.reduce_scatter_tensor(own, whole()), everyone
    yield lambda: dist.all_to_all_single(torch.zeros(4 * world), whole()), everyone
    if rank < 2:
        peer = 1 - rank
        yield lambda: dist.all_reduce(a.clone(), group=pair), {peer}
        yield lambda: dist.broadcast(a.clone(), 0, pair), {peer}
        if rank == 0:
            yield lambda: dist.send(a, 1), {1}
            yield lambda: dist.send(a, dst=1), {1}
            yield lambda: wait(dist.isend(a, 1)), {1}
            yield lambda: wait(dist.isend(tensor=a, dst=1, group=dist.group.WORLD)), {1}
        else:
            yield lambda: dist.recv(own, 0), {0}
            yield lambda: dist.recv(own, src=0), {0}
            yield lambda: wait(dist.irecv(own, 0)), {0}
            yield lambda: wait(dist.irecv(tensor=own, src=0, group=dist.group.WORLD)), {0}

        def swap() -> None:
            operations = [dist.P2POp(dist.isend, a, peer), dist.P2POp(dist.irecv, own, peer)]
            for request in dist.batch_isend_irecv(operations):
                wait(request)

        yield swap, {peer}


def train(rank: int, world: int, path: str) -> None:
    model = nn.Linear(4, 4)
    made = list(steps(rank, world))
    debugger = PrecisionDebugger(dump_path=path, level="mix")
    debugger.start(model)
    model(torch.ones(1, 4)).sum().backward()
    for call, _ in made:
        call()
    debugger.stop()
    debugger.step()
    (Path(path) / f"expected{rank}").write_text(
        "\n".join(" ".join(map(str, sorted(partners))) for _, partners in made)
    )


@pytest.mark.parametrize("world", tried_first([4, 2], 1, REPEATED))
def test_every_call_is_linked_with_its_partners(tmp_path: Path, world: int) -> None:
    run_in(world, train, world, str(tmp_path))
    expected = {
        rank: [
            {int(word) for word in line.split()}
            for line in (tmp_path / f"expected{rank}").read_text().split("\n")
        ]
        for rank in range(world)
    }
    dump = next(tmp_path.glob("step*"))
    result = build(BuildConfig(dump), tmp_path / "out", name="c.vis.db", workers=1)
    with closing(sqlite3.connect(result.path)) as connection:
        calls: dict[int, list[int]] = defaultdict(list)
        for rank, node in connection.execute(
            "SELECT rank, node_id FROM node_view WHERE name GLOB 'Distributed.*' ORDER BY seq"
        ):
            calls[rank].append(node)
        partners: dict[int, set[int]] = defaultdict(set)
        for node, rank in connection.execute(
            "SELECT communication.node_id, rank FROM communication"
            " JOIN node_view ON node_view.node_id = partner_id"
        ):
            partners[node].add(rank)
        found = {rank: [partners[node] for node in nodes] for rank, nodes in calls.items()}
        unpaired = connection.execute(
            "SELECT code, subject FROM diagnostic WHERE code GLOB 'communication_*'"
        ).fetchall()
    assert found == expected
    assert [finding for finding in unpaired if finding[0] != "communication_data_differ"] == []
