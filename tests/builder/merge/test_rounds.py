"""Any schedule of a stage is sorted back into the order of a single rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.flow.operators import is_between_peers
from msprobe_builder.merge.join.layers import number_layers
from msprobe_builder.merge.join.micro_batches import FINAL, Round, passes_of, sort_top
from msprobe_builder.pipeline.compare import read_rank


class Pass(NamedTuple):
    """A forward or backward pass of a model chunk on a micro-batch."""

    backward: int
    chunk: int
    micro_batch: int


def schedule(forward: Sequence[Pass], warm_up: int) -> list[Pass]:
    """Forward passes before the first backward pass, then one of each in turn."""
    chunks = 1 + max(one.chunk for one in forward)
    result = list(forward[:warm_up])
    for number, one in enumerate(forward):
        backward = Pass(1, chunks - 1 - one.chunk, one.micro_batch)
        result += [*forward[warm_up + number : warm_up + number + 1], backward]
    return result


def one_forward_one_backward(pp: int, stage: int, count: int) -> list[Pass]:
    return schedule([Pass(0, 0, m) for m in range(count)], pp - stage - 1)


def all_forward_first(count: int) -> list[Pass]:
    return schedule([Pass(0, 0, m) for m in range(count)], count)


def interleaved(pp: int, vpp: int, stage: int, groups: int) -> list[Pass]:
    """Micro-batches in groups of the pipeline's size, chunk by chunk."""
    forward = [
        Pass(0, chunk, group * pp + m)
        for group in range(groups)
        for chunk in range(vpp)
        for m in range(pp)
    ]
    return schedule(forward, 2 * (pp - stage - 1) + (vpp - 1) * pp)


class Stage:
    """What a stage records at its top level, and which pass each call belongs to."""

    def __init__(self) -> None:
        self.construct: dict[str, str | None] = {}
        self.owner: dict[str, Pass | None] = {}
        self.calls: dict[str, int] = {}

    def api(self, stem: str, owner: Pass | None, direction: str = "forward") -> None:
        number = self.calls[stem] = self.calls.get(stem, -1) + 1
        self.add(f"{stem}.{number}.{direction}", owner)

    def add(self, name: str, owner: Pass | None) -> None:
        self.construct[name] = None
        self.owner[name] = owner

    def run(self, one: Pass, *, is_first: bool, is_last: bool) -> None:
        """Received, worked on between modules, run, worked on again, sent."""
        is_start = is_first if not one.backward else is_last
        is_end = is_last if not one.backward else is_first
        if not is_start:
            self.api("Torch.empty", one)
            self.api("Distributed.recv", one)
        if one.backward:
            if is_start:
                self.api("Functional.cross_entropy_of_gradients", one, "backward")
            self.add(f"Module.{one.chunk}.GPT.backward.{one.micro_batch}", one)
        else:
            if is_start:
                self.api("Torch.arange", one)
                self.api("Tensor.expand", one)
            self.add(f"Module.{one.chunk}.GPT.forward.{one.micro_batch}", one)
            if is_end:
                self.api("Tensor.float", one)
                self.api("Functional.cross_entropy", one)
        if not is_end:
            self.api("Distributed.send", one)

    def tree(self) -> Tree:
        head = {"task": "structure", "level": "mix", "data": {}}
        side, _ = read_rank(InMemoryDump(head, self.construct), Texts())
        return side.tree


def check(passes: Sequence[Pass], chunks: int, *, is_first: bool, is_last: bool) -> None:
    stage = Stage()
    for one in passes:
        stage.run(
            one,
            is_first=is_first and one.chunk == 0,
            is_last=is_last and one.chunk == chunks - 1,
        )
    for _ in range(3):
        stage.api("Tensor.norm", None)
    tree = stage.tree()
    top = sort_top(tree, 0, number_layers([tree], chunks), *passes_of([tree]))
    found: dict[str, Pass | None] = {}
    for (own_round, piece), nodes in top.calls.items():
        is_final = own_round.micro_batch == FINAL
        owner = Pass(own_round.backward, piece.chunk, own_round.micro_batch)
        names = [tree.names[node] for node in nodes]
        found |= dict.fromkeys(names, None if is_final else owner)
        recorded = [name for name in stage.construct if name in set(names)]
        assert names == recorded  # in the order they ran
    # What is sent and received is set aside, with the buffers for it.
    stems = {name: name.rsplit(".", 2)[0] for name in stage.construct}
    peers = {
        name for name, stem in stems.items() if is_between_peers(stem) or stem == "Torch.empty"
    }
    assert found == {name: one for name, one in stage.owner.items() if name not in peers}
    aside = [tree.names[node] for nodes in top.peer_calls.values() for node in nodes]
    assert sorted(aside) == sorted(peers)
    rounds = sorted({own_round for own_round, _ in top.calls})
    micro_batches = sorted({one.micro_batch for one in passes})
    in_turn = [Round(m, backward) for m in micro_batches for backward in (0, 1)]
    assert rounds == [*in_turn, Round(FINAL, 0)]


@given(st.integers(1, 8), st.data(), st.integers(1, 12))
def test_one_forward_one_backward(pp: int, data: st.DataObject, count: int) -> None:
    stage = data.draw(st.integers(0, pp - 1))
    passes = one_forward_one_backward(pp, stage, count)
    check(passes, 1, is_first=stage == 0, is_last=stage == pp - 1)


@given(st.integers(1, 12), st.booleans(), st.booleans())
def test_all_forward_first(count: int, is_first: bool, is_last: bool) -> None:
    check(all_forward_first(count), 1, is_first=is_first, is_last=is_last)


@given(st.integers(2, 5), st.integers(2, 4), st.data(), st.integers(1, 3))
def test_interleaved(pp: int, vpp: int, data: st.DataObject, groups: int) -> None:
    stage = data.draw(st.integers(0, pp - 1))
    passes = interleaved(pp, vpp, stage, groups)
    assert len(set(passes)) == len(passes) == 2 * vpp * pp * groups
    check(passes, vpp, is_first=stage == 0, is_last=stage == pp - 1)


@given(st.data(), st.integers(1, 8), st.integers(1, 3))
def test_any_order_in_which_data_can_flow(data: st.DataObject, count: int, chunks: int) -> None:
    ready = [Pass(0, 0, m) for m in range(count)]
    passes = []
    while ready:
        one = data.draw(st.sampled_from(ready))
        ready.remove(one)
        passes.append(one)
        if one.backward and one.chunk:
            ready.append(one._replace(chunk=one.chunk - 1))
        elif not one.backward and one.chunk + 1 < chunks:
            ready.append(one._replace(chunk=one.chunk + 1))
        elif not one.backward:
            ready.append(one._replace(backward=1))
    check(passes, chunks, is_first=data.draw(st.booleans()), is_last=data.draw(st.booleans()))


@pytest.mark.parametrize("count", [1, 3])
def test_without_backward_nothing_is_final(count: int) -> None:
    stage = Stage()
    for m in range(count):
        stage.run(Pass(0, 0, m), is_first=True, is_last=True)
    tree = stage.tree()
    top = sort_top(tree, 0, number_layers([tree], 1), *passes_of([tree]))
    assert [own_round for own_round, _ in top.calls] == [Round(m, 0) for m in range(count)]


def test_without_modules_all_is_final() -> None:
    stage = Stage()
    stage.api("Tensor.norm", None)
    tree = stage.tree()
    top = sort_top(tree, 3, number_layers([tree], 1), *passes_of([tree]))
    assert [(own_round, piece) for own_round, piece in top.calls] == [((FINAL, 0), (0, 3))]
