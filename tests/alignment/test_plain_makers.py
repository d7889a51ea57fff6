"""Who made what calls take in, beyond calls that only move elements, by plain links."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import cast

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.evidence.flow import Flow
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.order_and_flow import _Calls, _depth
from msprobe_builder.dump.parameters import Section
from tests.alignment.test_traits import Dump, read
from tests.builder.merge.test_plain_backward import NET, record_of, some_step
from tests.builder.small_dumps import tensor
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

MOVES, ADDS, MODULE = 1, 2, -1  # operators


class Drawn:
    """Leaves in order, of up to three inputs and one output each; a row takes in what one before
    put out, or what nobody did."""

    def __init__(self, random: Random) -> None:
        self.count = random.randint(1, 9)
        self.operator = random.choices([MOVES, MOVES, ADDS, ADDS, MODULE], k=self.count)
        self.inputs: list[list[int]] = []  # by node the makers of its inputs
        node, section, source = [], [], []
        rows: list[int] = []  # of what each node puts out
        for one in range(self.count):
            makers = [random.randint(-1, one - 1) for _ in range(random.randint(0, 3))]
            self.inputs.append(makers)
            for maker in makers:
                node.append(one)
                section.append(int(Section.INPUT))
                source.append(rows[maker] if maker >= 0 else -1)
            rows.append(len(node))
            node.append(one)
            section.append(int(Section.OUTPUT))
            source.append(-1)
        table = SimpleNamespace(
            node=np.array(node),
            section=np.array(section),
            is_tensor=np.ones(len(node), dtype=bool),
        )
        self.flow = cast(
            "Flow",
            SimpleNamespace(
                table=table, source=np.array(source), is_leaf=np.ones(self.count, dtype=bool)
            ),
        )

    def of(self) -> _Calls:
        side = _Side(np.array(self.operator))
        return _Calls.of(cast("Traits", side), self.flow, np.array([MOVES]))

    def maker(self, node: int, place: int) -> int:
        """Of the first two inputs; what is moved comes from the first that the call takes in."""
        found = self.inputs[node][place] if place < len(self.inputs[node]) else -1
        while found >= 0 and self.operator[found] == MOVES:
            found = self.inputs[found][0] if self.inputs[found] else -1
        return found


class _Side:
    def __init__(self, operator: np.ndarray) -> None:
        self.operator = operator

    def __len__(self) -> int:
        return len(self.operator)


@settings(max_examples=costly_examples(100))
@given(RANDOMS)
def test_calls_that_move_elements_are_seen_through(random: Random) -> None:
    drawn = Drawn(random)
    calls = drawn.of()
    assert calls.nodes.tolist() == [
        node for node, one in enumerate(drawn.operator) if one not in (MOVES, MODULE)
    ]
    for place in range(2):
        for node in calls.nodes.tolist():
            assert calls.maker[place, node] == drawn.maker(node, place)
    # Of some of the calls: who of these it is.
    some = sorted(random.sample(calls.nodes.tolist(), random.randint(0, len(calls.nodes))))
    found = calls.makers(np.array(some, dtype=np.int64))
    for place in range(2):
        for number, node in enumerate(some):
            maker = drawn.maker(node, place)
            assert found[place, number] == (some.index(maker) if maker in some else -1)


@settings(max_examples=costly_examples(100))
@given(RANDOMS)
def test_depth_is_the_longest_way_as_a_share(random: Random) -> None:
    size = random.randint(1, 7)
    makers = np.array([[random.randint(-1, node - 1) for node in range(size)] for _ in range(2)])

    def way(node: int) -> int:
        return 1 + max((way(one) for one in makers[:, node].tolist() if one >= 0), default=0)

    ways = [way(node) for node in range(size)]
    np.testing.assert_allclose(_depth(makers), np.array(ways) / max(ways))


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_what_goes_forward_inside_of_a_backward_call_is_no_first_call(random: Random) -> None:
    """Gradients of parameters have no direction, and go nowhere."""
    construct = some_step(random)
    data = {name: record_of(name) for name in construct}
    data |= {f"{NET}.parameters_grad": {"weight": [tensor()]}} if random.random() < 0.5 else {}
    [side] = read([Dump(data, construct | dict.fromkeys(data.keys() - construct.keys()))])
    for name, node in side.nodes.items():
        host = construct.get(name) or ""
        is_first = ".forward" in name and ".backward" not in host
        assert side.traits.forward[node] == is_first, (name, host)
    assert not side.traits.forward[0]
