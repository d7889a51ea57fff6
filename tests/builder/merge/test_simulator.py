"""merge(split(x)) = x for any split of a simulated training."""

from __future__ import annotations

from functools import partial

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from msprobe_builder.compare import read_rank
from msprobe_builder.diagnostics import Diagnostic
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.layout import parse_layout, replicas
from msprobe_builder.merge.replica import ReplicaSource, read_replica
from msprobe_builder.texts import Texts
from tests.builder.merge.simulated_training import Model
from tests.builder.merge.simulator import Cluster, simulate


def merged(model: Model, cluster: Cluster, texts: Texts) -> tuple[Side, list[Diagnostic]]:
    sizes = {"tp": cluster.tp, "pp": cluster.pp, "vpp": cluster.vpp}
    layout = parse_layout({"rank_size": cluster.tp * cluster.pp, **sizes}, "npu")
    [replica] = replicas(layout)
    source = ReplicaSource(layout, replica, simulate(model, cluster))
    return read_replica(source, texts, partial(read_rank, texts=texts))


def is_communication(side: Side, node: int) -> bool:
    while node >= 0:
        stem = side.tree.parsed[node].stem
        if stem.startswith(("Distributed.", "Communication_Between_Stages")):
            return True
        node = int(side.tree.parent[node])
    return False


def outline(side: Side) -> list[tuple[str, str, int]]:
    """Name, parent and micro-step of everything but the communication."""
    tree = side.tree
    return [
        (tree.names[node], tree.names[tree.parent[node]], int(tree.micro_step[node]))
        for node in range(1, len(tree))
        if not is_communication(side, node)
    ]


def values(side: Side, texts: Texts) -> dict[tuple[str, int, str], tuple[int, np.ndarray]]:
    table, found = side.table, {}
    for row in np.flatnonzero(table.is_tensor).tolist():
        node = int(table.node[row])
        if not is_communication(side, node):
            key = side.tree.names[node], int(table.section[row]), texts.values[table.name_id[row]]
            found[key] = int(table.shape_id[row]), table.statistics[:, row]
    return found


def check_against_truth(model: Model, cluster: Cluster) -> None:
    texts = Texts()
    side, diagnostics = merged(model, cluster, texts)
    truth, _ = read_rank(simulate(model, Cluster())[0], texts)
    assert outline(side) == outline(truth)
    assert {one.code for one in diagnostics} <= {"call_without_record"}
    found, expected = values(side, texts), values(truth, texts)
    assert found.keys() == expected.keys()
    wrong = [
        (key, texts.values[shape], found[key][1].tolist(), statistics.tolist())
        for key, (shape, statistics) in expected.items()
        if found[key][0] != shape
        or not np.allclose(found[key][1], statistics, rtol=1e-9, atol=1e-9)
    ]
    assert not wrong


@st.composite
def splits(draw: st.DrawFn) -> tuple[Model, Cluster]:
    nesting = draw(st.sampled_from(["decoder", "flat", "bare"]))
    pp = draw(st.integers(1, 4))
    vpp = draw(st.integers(1, 3)) if pp > 1 and nesting != "bare" else 1
    model = Model(draw(st.integers(1, 6)), draw(st.integers(1, 5)), nesting, draw(st.booleans()))
    tp = draw(st.sampled_from([1, 2, 4]))
    pieces = pp * vpp - 1
    # Behind the head nothing would tell that its slices are no whole tensors.
    last = len(model.parts) - (tp > 1)
    cuts = st.lists(st.integers(0, last), min_size=pieces, max_size=pieces)
    if nesting == "bare":  # a stage without a module has nothing to be recognised by
        inner = st.integers(1, len(model.parts) - 1)
        assume(pieces < len(model.parts))
        cuts = st.lists(inner, min_size=pieces, max_size=pieces, unique=True)
    cluster = Cluster(tp, pp, vpp, tuple(sorted(draw(cuts))), draw(st.booleans()))
    return model, cluster


@settings(max_examples=60)
@given(splits())
def test_the_merge_of_a_split_is_the_whole(split: tuple[Model, Cluster]) -> None:
    check_against_truth(*split)
