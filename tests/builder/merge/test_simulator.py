"""merge(split(x)) = x for any split of a simulated training."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.ranks.layout import expert_peers, parse_layout, replicas
from msprobe_builder.merge.replica import ReplicaSource, read_replica
from msprobe_builder.pipeline.compare import read_rank
from tests.builder.merge.simulated_training import HIDDEN, INNER, VOCABULARY, Model
from tests.builder.merge.simulator import Cluster, simulate, whole
from tests.cases import costly_examples
from tests.pairwise import covering


def merged(
    dumps: dict[int, InMemoryDump], cluster: Cluster, texts: Texts, index: int = 0
) -> tuple[Side, list[Diagnostic]]:
    sizes = {key: getattr(cluster, key) for key in ("tp", "pp", "vpp", "cp", "ep")}
    layout = parse_layout({"rank_size": len(dumps), **sizes}, "npu")
    parts = replicas(layout)
    [together] = [one for one in expert_peers(layout) if index in one]
    peers = tuple(parts[other] for other in sorted(together - {index}))
    source = ReplicaSource(layout, parts[index], dumps, peers)
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


def check_against_truth(model: Model, cluster: Cluster, index: int = 0) -> None:
    texts = Texts()
    side, diagnostics = merged(simulate(model, cluster), cluster, texts, index)
    truth, _ = read_rank(whole(model, cluster, index), texts)
    assert outline(side) == outline(truth)
    assert {one.code for one in diagnostics} <= {"call_without_record"}
    found, expected = values(side, texts), values(truth, texts)
    assert found.keys() == expected.keys()
    unknown = {key for key, (_, statistics) in found.items() if np.isnan(statistics).all()}
    if cluster.cp > 1:
        sums = {
            key
            for key, (shape, _) in expected.items()
            if is_gradient_of_weight(key, texts.values[shape])
        }
        assert unknown == sums
    elif cluster.sequence_parallel and cluster.tp > 1:  # the sums over the ranks are not recorded
        assert unknown == {key for key in expected if key[0].endswith("RMSNorm.parameters_grad")}
    else:
        assert unknown == set()
    wrong = [
        (key, texts.values[shape], found[key][1].tolist(), statistics.tolist())
        for key, (shape, statistics) in expected.items()
        if found[key][0] != shape
        or not (key in unknown or np.allclose(found[key][1], statistics, rtol=1e-9, atol=1e-9))
    ]
    assert not wrong


def is_gradient_of_weight(key: tuple[str, int, str], shape: str) -> bool:
    """Recorded of a module, or put out by the call in its backward pass that makes it."""
    is_output = key[0].startswith("Tensor.matmul.") and key[1] == Section.OUTPUT
    weights = {f"[{VOCABULARY}, {HIDDEN}]", f"[{INNER}, {HIDDEN}]", f"[{HIDDEN}, {INNER}]"}
    return key[0].endswith("parameters_grad") or (is_output and shape in weights)


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
    bounds = sorted(draw(cuts))
    is_sequence = draw(st.booleans())
    if is_sequence and tp > 1:  # without a parallel layer nothing tells slices from wholes
        held = [model.parts[a:b] for a, b in pairwise([0, *bounds, len(model.parts)])]
        assume(all(set(piece) - {"final_norm"} for piece in held))
    cluster = Cluster(tp, pp, vpp, tuple(bounds), draw(st.booleans()), is_sequence)
    return model, cluster


def is_possible(row: dict[str, Any]) -> bool:
    """Whether there is such a training: a chunk without a module is recognised by nothing."""
    if row["vpp"] > 1 and (row["pp"] == 1 or row["nesting"] == "bare"):
        return False
    is_plain = row["cp"] == row["dp"] == 1 and not row["experts"]
    if row["sequence_parallel"] and not is_plain:
        return False
    # Tensor-parallel ranks of the simulated training share no experts out.
    can_share = row["experts"] and row["tp"] == 1
    return row["ep"] == 1 or bool(can_share and row["cp"] * row["dp"] % row["ep"] == 0)


SPREADS = covering(
    {
        "nesting": ["decoder", "flat", "bare"],
        "tp": [1, 2, 4],
        "pp": [1, 2, 4],
        "vpp": [1, 3],
        "cp": [1, 2],
        "dp": [1, 2],
        "ep": [1, 2],
        "experts": [0, 4],
        "micro_batches": [1, 3],
        "global_numbers": [False, True],
        "all_forward_first": [False, True],
        "sequence_parallel": [False, True],
    },
    is_possible,
)


@pytest.mark.parametrize("row", SPREADS, ids=lambda row: "-".join(map(str, row.values())))
def test_any_two_ways_to_split_go_together(row: dict[str, Any]) -> None:
    row = dict(row)
    own = {key: row.pop(key) for key in ("micro_batches", "nesting", "global_numbers", "experts")}
    model = Model(layers=4, **own)
    pieces = row["pp"] * row["vpp"]
    cuts = tuple(len(model.parts) * piece // pieces for piece in range(1, pieces))
    cluster = Cluster(cuts=cuts, **row)
    check_against_truth(model, cluster, cluster.dp - 1)


@pytest.mark.slow
@settings(max_examples=costly_examples())
@given(splits())
def test_the_merge_of_a_split_is_the_whole(split: tuple[Model, Cluster]) -> None:
    check_against_truth(*split)


@st.composite
def spreads(draw: st.DrawFn) -> tuple[Model, Cluster, int]:
    """Sequences cut in parts and experts shared out, together with a split of the layers."""
    model, split = draw(splits())
    cp, dp = draw(st.sampled_from([(1, 1), (2, 1), (4, 1), (1, 2), (1, 4), (2, 2)]))
    # Tensor-parallel ranks of the simulated training share no experts out.
    experts = draw(st.sampled_from([0, 4, 8])) if split.tp == 1 else 0
    shares = [ep for ep in (1, 2, 4) if cp * dp % ep == 0]
    ep = draw(st.sampled_from(shares)) if experts else 1
    cluster = replace(split, cp=cp, dp=dp, ep=ep, sequence_parallel=False)
    return replace(model, experts=experts), cluster, draw(st.integers(0, dp - 1))


@pytest.mark.slow
@example(
    (
        Model(layers=5, micro_batches=1, nesting="decoder", experts=8),
        Cluster(tp=1, pp=2, cuts=(0,), cp=4),
        0,
    )
).via("the backward order of experts that no two ranks share")
@settings(max_examples=costly_examples())
@given(spreads())
def test_the_merge_of_parts_of_sequences_and_experts_is_the_whole(
    spread: tuple[Model, Cluster, int],
) -> None:
    check_against_truth(*spread)


def only_modules(dump: InMemoryDump) -> InMemoryDump:
    """The dump at level L0: no calls but those of modules."""
    names = [name for name in dump.construct if name.startswith("Module.")]
    data = {name: one for name, one in dump.dump["data"].items() if name.startswith("Module.")}
    construct = {name: dump.construct[name] for name in names}
    return InMemoryDump({**dump.dump, "level": "L0", "data": data}, construct)


@pytest.mark.parametrize("is_sequence", [False, True])
@pytest.mark.parametrize("tp", [2, 4])
def test_with_modules_alone_nothing_is_invented(tp: int, is_sequence: bool) -> None:
    model, cluster, texts = Model(3), Cluster(tp, sequence_parallel=is_sequence), Texts()
    dumps = {rank: only_modules(one) for rank, one in simulate(model, cluster).items()}
    side, diagnostics = merged(dumps, cluster, texts)
    truth, _ = read_rank(only_modules(simulate(model, Cluster())[0]), texts)
    assert diagnostics == []
    assert outline(side) == outline(truth)
    found, expected = values(side, texts), values(truth, texts)
    assert found.keys() == expected.keys()
    known = {key for key, (_, statistics) in found.items() if not np.isnan(statistics).all()}
    for key in known:
        np.testing.assert_allclose(found[key][1], expected[key][1], 1e-9, 1e-9, err_msg=str(key))
    for key, (shape, _) in found.items():
        assert shape in (-1, expected[key][0]), key
    parallel = {key for key in expected if "Parallel" in key[0]}
    assert parallel <= known


@pytest.mark.parametrize(("groups", "codes"), [(["01", "23"], set()), (["02", "13"], {"conflict"})])
def test_exchanges_over_other_ranks_are_a_conflict(groups: list[str], codes: set[str]) -> None:
    cluster, texts = Cluster(dp=4, ep=2), Texts()
    dumps = simulate(Model(1, 1, experts=4), cluster)
    for group in groups:
        ranks = [int(rank) for rank in group]
        for rank in ranks:
            for name, record in dumps[rank].dump["data"].items():
                if name.startswith("Distributed.all_to_all_single"):
                    own = {"type": "torch.ProcessGroup", "group_ranks": ranks}
                    record["input_kwargs"]["group"] = own
    _, diagnostics = merged(dumps, cluster, texts)
    assert {one.code.partition("_")[2] for one in diagnostics if "layout" in one.code} == codes
