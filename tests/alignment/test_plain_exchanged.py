"""Pairs of equal names that put out what others do, and pairs that another rank tells of."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings

from msprobe_builder.align.evidence.exchanged import _agree, exchanged_places
from msprobe_builder.align.evidence.tolerances import EQUAL, NEAR
from msprobe_builder.align.from_other_ranks import with_told
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.graph.side import Side
from msprobe_builder.match.matching import Alignment, Group, Likely, Told, ToldGroup
from msprobe_builder.match.outline import outline_of
from msprobe_builder.pipeline.compare import read_rank
from tests.alignment.drawn_fused import fresh
from tests.alignment.test_plain_hierarchies import some_hierarchy
from tests.alignment.test_traits import Dump
from tests.builder.small_dumps import Record, forward, tensor
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

STEMS = ("Torch.relu", "Torch.add", "Tensor.__getitem__")
TAKES = STEMS[2]


def side_of(dump: Dump, texts: Texts) -> Side:
    content = {"task": "statistics", "framework": "pytorch", "data": dump.data}
    return read_rank(InMemoryDump(content, dump.construct, {}), texts)[0]


def changed(record: Record, share: float) -> Record:
    statistics = ("Max", "Min", "Mean", "Norm")
    return {**record, **{key: record[key] * share for key in statistics if record[key]}}


def exchanged_dumps(random: Random) -> tuple[Dump, Dump]:
    """The same calls of modules on both sides, whose results stand in another order on one."""
    first, second = Dump({}, {}), Dump({}, {})
    with_md5 = random.random() < 0.3
    pool = [fresh(random, (2, 4)) for _ in range(3)] + [fresh(random, ())]
    if with_md5:
        for place, one in enumerate(pool):
            one["md5"] = f"{place:08x}"
    made: dict[str, list[Record]] = {}
    names: list[tuple[str, str | None]] = []
    for host in ("Module.net.a.Part.forward.0", "Module.net.b.Part.forward.0"):
        names.append((host, None))
        for _ in range(random.randint(2, 5)):
            stem = random.choice(STEMS[random.randrange(2) :])
            count = sum(name.startswith(stem) for name, _ in names)
            names.append((f"{stem}.{count}.forward", host))
    names.append(("Module.net.a.Part.forward.1", None))
    for name, _ in names:
        own = fresh(random, (2, 4))
        if with_md5:
            own["md5"] = f"{100 + len(made):08x}"
        made[name] = [own if random.random() < 0.8 else random.choice(pool), random.choice(pool)]
        made[name] = made[name][:: random.choice([1, 1, 1, -1])][: random.choice([1, 1, 2])]
    order = [name for name, _ in names]
    hosts = dict(names)
    for _ in range(random.randint(0, 3)):
        call = random.choice(order)
        alike = [it for it in order if hosts[it] == hosts[call] and it[:8] == call[:8]]
        another = random.choice(alike if random.random() < 0.9 else order)
        place, other = order.index(call), order.index(another)
        order[place], order[other] = another, call
    for (name, above), source in zip(names, order, strict=True):
        first.data[name] = forward([tensor()], made[name])
        share = random.choice([1.0] * 9 + [1 + 2e-6, 1.01, 3.0])
        out = made[source] if with_md5 else [changed(one, share) for one in made[source]]
        second.data[name] = forward([tensor()], out)
        first.construct[name] = second.construct[name] = above
    return first, second


def first_told(dump: Dump, name: str) -> Record | None:
    """The first output that is no single number, nothing or zero; or that has a checksum."""
    for one in dump.tensors(name, "outputs"):
        if "md5" in one or (one["shape"] and one["Norm"]):
            return one
    return None


def agrees(one: Record, two: Record, share: float) -> bool:
    if "md5" in one and "md5" in two:
        return bool(one["md5"] == two["md5"])
    if one["shape"] != two["shape"]:
        return False
    largest = max(abs(it[key]) for it in (one, two) for key in ("Max", "Min"))
    units = {"Norm": max(one["Norm"], two["Norm"]), "Max": largest, "Min": largest}
    return all(abs(one[key] - two[key]) <= share * unit for key, unit in units.items())


@settings(max_examples=costly_examples(80))
@given(RANDOMS)
def test_a_call_that_puts_out_what_another_one_does_has_changed_places(random: Random) -> None:
    """One of the same operator in the partner of its host; on the same line both trade places."""
    first, second = exchanged_dumps(random)
    texts = Texts()
    npu, bench = side_of(first, texts), side_of(second, texts)
    nodes = {name: node for node, name in enumerate(npu.tree.names) if name in first.data}
    outlines = outline_of(npu.tree, npu.table), outline_of(bench.tree, bench.table)
    partner = np.arange(len(npu.tree))
    left_out = {name for name in nodes if random.random() < 0.1}
    partner[[nodes[name] for name in left_out]] = -1
    site, other_site = (
        np.array(random.choices(lines, k=len(partner)), dtype=np.int64)
        for lines in random.choice([([0], [0]), ([0, 1, 2], [0, 1, 2]), ([1], [1])])
    )

    def kind(name: str) -> object:
        """Calls of one operator in one module, or of one module wherever it is called."""
        stem = name.partition(".forward")[0]
        return (
            stem if name.startswith("Module") else (stem.rpartition(".")[0], first.construct[name])
        )

    told = {
        name: (mine, its)
        for name in nodes
        if name not in left_out
        for mine in [first_told(first, name)]
        for its in [first_told(second, name)]
        if mine and its
    }
    # A call of a module without a partner is of no place.
    apart = [name for name, (mine, its) in told.items() if not agrees(mine, its, NEAR)]
    moves: dict[str, str] = {}
    for name in apart if len(apart) > 1 else ():
        fitting = [
            other
            for other in apart
            if kind(other) == kind(name) and agrees(told[name][0], told[other][1], EQUAL)
        ]
        if len(fitting) == 1:
            moves[name] = fitting[0]
    same_line = {name for name in moves if site[nodes[name]] == other_site[nodes[name]] > 0}
    moves = {
        name: other
        for name, other in moves.items()
        if name not in same_line
        or (other_site[nodes[other]] == site[nodes[name]] and not name.startswith(TAKES))
    }
    trades = same_line & moves.keys()
    kept = {
        name
        for name, other in moves.items()
        if name not in same_line or (other in trades and name in {moves[one] for one in trades})
    }
    found = exchanged_places(npu, bench, *outlines, partner, (site, other_site))
    inside = {one for name in kept for one in first.inside(name)}
    if not _is_ambiguous(first, left_out):
        assert {name for name, node in nodes.items() if found[node]} == inside


def _is_ambiguous(dump: Dump, left_out: set[str]) -> bool:
    """Whether a module without a partner makes calls; these are of the root then."""
    return any(dump.construct[name] in left_out for name in dump.data)


@pytest.mark.parametrize("share", [EQUAL, NEAR])
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize(("more", "is_same"), [(0.9, True), (1.1, False)])
def test_results_agree_up_to_the_tolerance(
    share: float, place: int, more: float, is_same: bool
) -> None:
    """Of the norm by itself, of the extremes by the larger one; the mean says nothing."""
    dump = Dump({"Torch.relu.0.forward": forward([], [tensor()])}, {"Torch.relu.0.forward": None})
    texts = Texts()
    npu, bench = side_of(dump, texts), side_of(dump, texts)
    row = np.array([0])
    for high, low in ((4.0, -1.0), (1.0, -4.0)):
        for side in (npu, bench):
            side.table.statistics[:, 0] = high, low, 0.5, 8.0
        bench.table.statistics[place, 0] -= more * share * (8.0 if place == 3 else 4.0)
        assert _agree(npu, bench, row, row, share).tolist() == [is_same or place == 2]


# -- told by another rank ----------------------------------------------------------------------


def calls_of(dump: Dump) -> Counter[tuple[str, int]]:
    """How often each stem is called forward; the root of the tree is none."""
    found: Counter[tuple[str, int]] = Counter()
    for name in dump.data:
        stem = name.partition(".forward")[0]
        found[stem if name.startswith("Module") else stem.rpartition(".")[0], 0] += 1
    return found


def of_tree(side: Side) -> Counter[tuple[str, int]]:
    return Counter((name.stem, int(name.direction)) for name in side.tree.parsed)


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_what_another_rank_pairs_is_a_pair_where_both_are_alone_and_called_as_often(
    random: Random,
) -> None:
    dumps = some_hierarchy(random), some_hierarchy(random)
    texts = Texts()
    npu, bench = (side_of(one, texts) for one in dumps)
    nodes, there = (
        {name: node for node, name in enumerate(side.tree.names) if name in dump.data}
        for side, dump in zip((npu, bench), dumps, strict=True)
    )
    partner = np.full(len(npu.tree), -1, dtype=np.int64)
    partner[0] = 0
    back = {0: 0}
    for one, two in zip(nodes, random.sample([*there], len(there)), strict=False):
        if random.random() < 0.3:
            partner[nodes[one]] = there[two]
            back[there[two]] = nodes[one]
    grouped = (
        {node for node in nodes.values() if partner[node] < 0 and random.random() < 0.1},
        {node for node in there.values() if node not in back and random.random() < 0.1},
    )
    groups = (Group("op", (*grouped[0],), (*grouped[1],), (), 0.5),) if all(grouped) else ()
    grouped = grouped if groups else (set(), set())
    counts: list[Counter[tuple[str, int]]] = [of_tree(npu), of_tree(bench)]
    shifted: list[set[str]] = [set(), set()]
    for side, count in enumerate(counts):
        for key in [*count]:
            if random.random() < 0.1:
                count[key] += random.choice([-1, 1])
                shifted[side].add(key[0])
        if random.random() < 0.1:
            count["Torch.elsewhere", 0] += 1
    told_pairs = tuple(
        (one, two, random.choice([0.6, 0.9]))
        for one, two in zip(nodes, there, strict=False)
        if random.random() < 0.7
    )
    told_groups = []
    for _ in range(2):
        members = random.sample([*nodes], min(2, len(nodes))), random.sample([*there], 1)
        ordinal = random.choice([0, 1, 4])
        row = ((members[0][0], ordinal), (members[1][0], 0))
        told_groups.append(ToldGroup("sum", (*members[0],), (*members[1],), (row,), 0.7))
    everyone = [*nodes.values()]
    likely = Likely(
        np.array(random.choices(everyone, k=4), dtype=np.int64),
        np.array(random.choices([*there.values()], k=4), dtype=np.int64),
        np.array([0.1, 0.2, 0.3, 0.4]),
    )
    zeros = np.zeros(len(partner))
    before = Alignment(partner.copy(), zeros.astype(np.int64), zeros.copy(), groups, likely)
    told = Told(told_pairs, tuple(told_groups), (counts[0], counts[1]))

    mine = {node: int(other) for node, other in enumerate(partner) if other >= 0}
    its = dict(back)

    def stem(name: str) -> str:
        first = name.partition(".forward")[0]
        return first if name.startswith("Module") else first.rpartition(".")[0]

    # A group of calls that are counted alike gives way to what was found there.
    if not any(
        stem(name) in shifted[side]
        for side, known in enumerate((nodes, there))
        for name, node in known.items()
        if node in grouped[side]
    ):
        groups, grouped = (), (set(), set())

    def alone(side: int, name: str) -> bool:
        node = (nodes, there)[side][name]
        taken = node in (mine, its)[side] or node in grouped[side]
        return not taken and stem(name) not in shifted[side]

    sure = {}
    for one, two, share in told_pairs:
        i, j = nodes[one], there[two]
        held = {nodes[name] for name in dumps[0].inside(one)} - {i}
        held_there = {there[name] for name in dumps[1].inside(two)} - {j}
        stays = all(mine[node] in held_there for node in held & mine.keys())
        stays = stays and all(its[node] in held for node in held_there & its.keys())
        if alone(0, one) and alone(1, two) and stays:
            mine[i], its[j], sure[i] = j, i, share
    added = []
    for group in told_groups:
        if all(alone(0, one) for one in group.npu) and all(alone(1, one) for one in group.bench):
            ((name, ordinal), (other, _)) = group.rows[0]
            rows = np.flatnonzero(npu.table.node == nodes[name])
            others = np.flatnonzero(bench.table.node == there[other])
            if ordinal < len(rows) and len(others):
                npu_nodes = tuple(nodes[one] for one in group.npu)
                bench_nodes = tuple(there[one] for one in group.bench)
                own = (int(rows[ordinal]), int(others[0]))
                added.append(Group("sum", npu_nodes, bench_nodes, (own,), 0.7))
    found = with_told(before, npu, bench, told)
    assert {i: int(j) for i, j in enumerate(found.partner) if j >= 0} == mine
    assert {i: found.certainty[i] for i in np.flatnonzero(found.evidence == 8).tolist()} == sure
    assert found.groups == (*groups, *added)
    stands = [
        (node, one, share)
        for node, one, share in zip(
            likely.node.tolist(), likely.candidate.tolist(), likely.likelihood.tolist(), strict=True
        )
        if node not in mine and one not in its
    ]
    columns = found.npu_likely
    assert [*zip(columns.node, columns.candidate, columns.likelihood, strict=True)] == stands
    assert (before.partner == partner).all(), "what was given stays as it was"
