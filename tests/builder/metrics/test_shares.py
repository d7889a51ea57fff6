"""Which rank's part of a weight is not what the reference has there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder.base.bands import Band
from msprobe_builder.base.codes import Disagreement, Grade
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.read import read_dump
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import tell
from msprobe_builder.graph.assembly import Assembly, Order, TensorFile
from msprobe_builder.graph.parameter_table import order_parameters
from msprobe_builder.graph.provenance import Apart, Provenance, Shares
from msprobe_builder.graph.side import Side
from msprobe_builder.graph.tree import build_tree
from msprobe_builder.match.matching import Matching, Unmatched
from msprobe_builder.metrics.apart import apart_errors, with_copies_apart, with_suspects
from msprobe_builder.metrics.replicas import Copy, copies_apart
from msprobe_builder.metrics.shares import with_faulty_shares
from tests.builder.metrics.small_dump import Record, call, statistics, tensor, write_dump, write_npy

LAYER = "Module.fc.Linear.forward.0"
WEIGHT, BIAS, OTHER = range(3)  # rows: the parameters of the one call
# Parts of three ranks, of two, three and one rows; no two have a statistic in common.
PARTS = [
    np.array([[1.0, -2], [4, 0.5]]),
    np.array([[3.0, 2], [-1, 6], [2.5, 1]]),
    np.array([[-5.0, 2]]),
]
WHOLE = np.concatenate(PARTS)
RANKS = (4, 5, 7)


def side(folder: Path, weight: Any, *, section: str = "parameters", file: bool = False) -> Side:
    """One layer with a weight and two biases that are the same everywhere."""
    more = {"data_name": "weight.npy"} if file else {}
    parameters = {"weight": tensor(weight, **more)}
    parameters |= {name: tensor([1.0, 2.0]) for name in ("bias", "other")}
    values = list(parameters.values())
    record: Record = call([], values if section == "output" else [])
    if section == "parameters":
        record["parameters"] = parameters
    write_dump(folder, {LAYER: record}, task="tensor" if file else "statistics")
    if file:
        write_npy(folder, "weight.npy", weight)
    dump = read_dump(folder, Texts())
    tree, _ = build_tree(dump)
    return Side(dump, tree, order_parameters(tree, dump.parameters))


def numbers(array: Any) -> tuple[float, float, float, float]:
    known = statistics(array)
    return known["Max"], known["Min"], known["Mean"], known["Norm"]


def merged(folder: Path, parts: list[Any], **more: Any) -> Side:
    """The layer of ranks that hold ``parts`` of the weight, known by their statistics."""
    shares = Shares(
        RANKS, np.array(list(map(numbers, parts))), np.array([float(one.size) for one in parts])
    )
    return replace(
        side(folder, np.concatenate(parts), **more), provenance=Provenance(shares={WEIGHT: shares})
    )


def saved(folder: Path, parts: list[Any], *, order: Order | None = None, **more: Any) -> Side:
    """The layer of ranks that saved their parts, joined along the first dimension."""
    files = []
    for rank, part in zip(RANKS, parts, strict=True):
        directory = folder / f"rank{rank}" / "dump_tensor_data"
        directory.mkdir(parents=True)
        np.save(directory / "weight.npy", part)
        files.append(TensorFile(directory, "weight.npy"))
    assembly = Assembly(tuple(files), 0, orders=(order or Order(),), **more)
    found = merged(folder / "merged", parts)
    assert found.provenance is not None
    return replace(found, provenance=replace(found.provenance, assemblies={WEIGHT: assembly}))


def apart(
    merge: Side, other: Side, *, differing: frozenset[int] = frozenset(), rows: int = 3
) -> dict[int, tuple[Apart, ...]]:
    found = with_faulty_shares(merge, other, {row: row for row in range(rows)}, differing)
    assert found.provenance is not None
    return found.provenance.apart


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize(("factor", "difference"), [(4.0, 0.75), (0.8, 0.25), (0.25, 1.0)])
def test_a_part_that_is_some_times_too_large(
    tmp_path: Path, place: int, factor: float, difference: float
) -> None:
    """The difference is |1 − 1 / factor|, at most one."""
    parts = [part * factor if at == place else part for at, part in enumerate(PARTS)]
    [one] = apart(merged(tmp_path / "ours", parts), side(tmp_path / "whole", WHOLE))[WEIGHT]
    rank = RANKS[place]
    assert (one.rank, one.suspect, one.shown_rank) == (rank, rank, None)
    assert one.kind is Disagreement.SHARE
    assert one.statistics == pytest.approx(numbers(parts[place]))
    assert one.difference == pytest.approx(difference)
    assert one.note is not None
    assert tell(one.note) == f"{factor:g} times"


def test_a_right_weight_accuses_nobody(tmp_path: Path) -> None:
    assert apart(merged(tmp_path / "ours", PARTS), side(tmp_path / "whole", WHOLE)) == {}
    near = [PARTS[0] * (1 + 1e-5), *PARTS[1:]]
    assert apart(merged(tmp_path / "near", near), side(tmp_path / "again", WHOLE)) == {}


@pytest.mark.parametrize(
    "parts",
    [
        [PARTS[0] + 3, *PARTS[1:]],  # no factor makes it right
        [PARTS[0] * 2, PARTS[1] * 2, PARTS[2]],  # two are wrong
        [PARTS[0] * -1, *PARTS[1:]],  # the norm is that of the reference
    ],
)
def test_no_single_part_explains_it(tmp_path: Path, parts: list[Any]) -> None:
    assert apart(merged(tmp_path / "ours", parts), side(tmp_path / "whole", WHOLE)) == {}


def test_equal_parts_do_not_tell_which_is_off(tmp_path: Path) -> None:
    """Two ranks with the same statistics explain the whole alike."""
    equal = [PARTS[0] * 2, PARTS[0] * 2, PARTS[2]]
    whole = np.concatenate([PARTS[0] * 2, PARTS[0], PARTS[2]])
    assert apart(merged(tmp_path / "ours", equal), side(tmp_path / "whole", whole)) == {}


def test_runs_that_began_with_other_weights_accuse_nobody(tmp_path: Path) -> None:
    parts = [PARTS[0] * 2, *PARTS[1:]]
    ours, other = merged(tmp_path / "ours", parts), side(tmp_path / "whole", WHOLE)
    assert list(apart(ours, other, rows=2)) == [WEIGHT]  # one of two
    assert apart(ours, other, rows=1) == {}
    assert list(apart(ours, other, differing=frozenset({WEIGHT}))) == [WEIGHT]
    assert apart(ours, other, differing=frozenset({BIAS})) == {}  # two of three


def test_only_weights_are_judged(tmp_path: Path) -> None:
    parts = [PARTS[0] * 2, *PARTS[1:]]
    ours = merged(tmp_path / "ours", parts, section="output")
    assert ours.table.section.tolist() == [Section.OUTPUT] * 3
    assert apart(ours, side(tmp_path / "whole", WHOLE, section="output")) == {}


def test_what_is_known_to_disagree_stays(tmp_path: Path) -> None:
    ours = merged(tmp_path / "ours", [PARTS[0] * 2, *PARTS[1:]])
    known = (Apart(1, Disagreement.REPLICA, 0, (1.0, 1.0, 1.0, 1.0), 0.5),)
    assert ours.provenance is not None
    for row, expected in ((WEIGHT, [WEIGHT]), (OTHER, [WEIGHT, OTHER])):
        told = replace(ours, provenance=replace(ours.provenance, apart={row: known}))
        found = apart(told, side(tmp_path / f"whole{row}", WHOLE))
        assert found[row] == known
        assert sorted(found) == expected


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_without_finite_statistics(tmp_path: Path, value: float) -> None:
    broken = [np.where(PARTS[0] == 4, value, PARTS[0]), *PARTS[1:]]
    with np.errstate(invalid="ignore"):
        ours = merged(tmp_path / "ours", broken)
        theirs = side(tmp_path / "theirs", np.concatenate(broken))
    [(row, [one])] = apart(ours, side(tmp_path / "whole", WHOLE)).items()
    assert (row, one.rank, one.suspect, one.difference) == (WEIGHT, 4, 4, 1.0)
    assert apart(merged(tmp_path / "right", PARTS), theirs) == {}


def test_elements_tell_of_every_rank(tmp_path: Path) -> None:
    """A moved part has the statistics of the right one; each is weighed against its place."""
    moved = [PARTS[0][::-1], PARTS[1], PARTS[2] * 1.5]
    other = side(tmp_path / "whole", WHOLE, file=True)
    first, last = apart(saved(tmp_path, moved), other, differing=frozenset({WEIGHT}))[WEIGHT]
    assert (first.rank, first.suspect, last.rank, last.suspect) == (4, 4, 7, 7)
    assert first.note == fact("apart.reordered")
    assert first.statistics == pytest.approx(numbers(PARTS[0]))
    # Rows (1, −2) and (4, 0.5) exchanged: each is off by (3, 2.5).
    distance = np.sqrt(2 * (3**2 + 2.5**2)) / np.linalg.norm(PARTS[0])
    assert first.difference == pytest.approx(min(distance, 1))
    assert last.note is None
    assert last.difference == pytest.approx(0.5)
    assert last.statistics == pytest.approx(numbers(PARTS[2] * 1.5))


def test_parts_made_of_blocks_have_several_places(tmp_path: Path) -> None:
    """Ranks hold rows of the first block, then twice as many of the second."""
    parts = [np.arange(6.0).reshape(3, 2) + 10 * rank + 1 for rank in range(3)]
    whole = np.concatenate([*(part[:1] for part in parts), *(part[1:] for part in parts)])
    other = side(tmp_path / "whole", whole, file=True)
    differing = frozenset({WEIGHT})
    order = Order((1, 2))
    assert apart(saved(tmp_path / "right", parts, order=order), other, differing=differing) == {}
    parts[1] = parts[1] * 1.25
    found = apart(saved(tmp_path / "wrong", parts, order=order), other, differing=differing)
    [one] = found[WEIGHT]
    assert one.rank == 5
    assert one.difference == pytest.approx(0.25)


def test_elements_say_nothing_of_parts_without_a_known_place(tmp_path: Path) -> None:
    wrong = [PARTS[0] * 2, *PARTS[1:]]
    differing = frozenset({WEIGHT})
    other = side(tmp_path / "whole", WHOLE, file=True)
    assert apart(saved(tmp_path / "outer", wrong, outer=2), other, differing=differing) == {}
    no_file = side(tmp_path / "none", WHOLE)
    assert apart(saved(tmp_path / "ours", wrong), no_file, differing=differing) == {}


@pytest.mark.parametrize(
    ("factor", "suspect"),
    [(1.08, 0), (1.3, 3), (1.0, None), (np.nan, None)],  # the reference is 1.1 times the shown
)
def test_the_copy_further_from_the_reference_is_the_suspect(
    tmp_path: Path, factor: float, suspect: int | None
) -> None:
    shown, other = side(tmp_path / "ours", PARTS[0]), side(tmp_path / "theirs", PARTS[0] * 1.1)
    one = Apart(3, Disagreement.REPLICA, 0, numbers(PARTS[0] * factor), 0.1)
    told = Provenance(apart={WEIGHT: (one, one._replace(suspect=8)), BIAS: (one,)})
    found = with_suspects(replace(shown, provenance=told), other.table, {WEIGHT: WEIGHT})
    assert found.provenance is not None
    # What is told already stays, and what is compared with nothing.
    assert [each.suspect for each in found.provenance.apart[WEIGHT]] == [suspect, 8]
    assert [each.suspect for each in found.provenance.apart[BIAS]] == [None]


def test_copies_of_one_tensor_that_differ(tmp_path: Path) -> None:
    """In norms of the tensor; less than 1e-4 is the rounding of atomic additions."""
    whole = np.array([3.0, 0, 4])  # of norm 5
    copies = [whole, whole * (1 + 5e-5), np.array([3.0, 1, 4]), np.zeros(2)]
    files = []
    for rank, copy in zip((2, 3, 5, 11), copies, strict=True):
        directory = tmp_path / f"rank{rank}" / "dump_tensor_data"
        directory.mkdir(parents=True)
        np.save(directory / "w.npy", copy)
        files.append(TensorFile(directory, "w.npy"))
    ours = side(tmp_path / "merged", whole)
    assert copies_apart(ours, WEIGHT) == []
    told = Provenance(assemblies={WEIGHT: Assembly(tuple(files))})
    first, second = copies_apart(replace(ours, provenance=told), WEIGHT)
    assert (first.rank, first.first_rank, second.rank, second.first_rank) == (5, 2, 11, 2)
    assert [first.difference, second.difference] == pytest.approx([1 / 5, 1])
    assert first.statistics == pytest.approx(numbers(copies[2]))
    for other in (Assembly(tuple(files), 0), Assembly((files[0], TensorFile(None, "none.npy")))):
        told = Provenance(assemblies={WEIGHT: other})
        assert copies_apart(replace(ours, provenance=told), WEIGHT) == []


@pytest.mark.parametrize("rows", [4, 8])
def test_a_reference_of_another_size_accuses_nobody(tmp_path: Path, rows: int) -> None:
    """A vocabulary is filled up to be cut evenly, the reference's need not be."""
    reference = np.resize(WHOLE, (rows, 2))
    other = side(tmp_path / "whole", reference, file=True)
    assert apart(saved(tmp_path, PARTS), other, differing=frozenset({WEIGHT})) == {}


def test_copies_that_differ_are_told_with_what_was_known(tmp_path: Path) -> None:
    ours = side(tmp_path / "ours", PARTS[0])
    copy = Copy(5, 2, (1.0, 2.0, 3.0, 4.0), 0.25)
    assert with_copies_apart(ours, {WEIGHT: [copy]}) is ours  # of one rank
    known = Apart(1, Disagreement.REPLICA, 0, (1.0, 1.0, 1.0, 1.0), 0.5)
    ours = replace(ours, provenance=Provenance(apart={BIAS: (known,)}))
    assert with_copies_apart(ours, {}) is ours
    again = copy._replace(rank=9)
    found = with_copies_apart(ours, {WEIGHT: [copy], BIAS: [again]}).provenance
    assert found is not None
    [told] = found.apart[WEIGHT]
    assert (told.rank, told.shown_rank, told.statistics) == (5, 2, (1.0, 2.0, 3.0, 4.0))
    assert (told.kind, told.difference) == (Disagreement.REPLICA, 0.25)
    assert (told.suspect, told.note) == (None, fact("apart.elements_differ"))
    assert found.apart[BIAS] == (known,)


def test_where_a_difference_arises_the_grade_is_the_worst(tmp_path: Path) -> None:
    """Elsewhere it counts by its size; of the other side's ranks it counts for their partner."""
    ours, theirs = side(tmp_path / "ours", PARTS[0]), side(tmp_path / "theirs", PARTS[0])
    node = ours.tree.names.index(LAYER)
    nodes = np.arange(len(ours.tree), dtype=np.int64)
    none = Unmatched(nodes[:0], nodes[:0], nodes[:0], [])
    matching = Matching(nodes, nodes, nodes, none, none)
    profile = tuple(
        Band(grade, low, high, "")
        for grade, low, high in ((Grade.OK, 0.0, 0.3), (Grade.SEVERE, 0.3, 1.0))
    )

    def error(one: Side, other: Side) -> float:
        return float(apart_errors(one, other, matching, profile)[node])

    def told(difference: float, is_origin: bool) -> Provenance:
        one = Apart(1, Disagreement.REPLICA, 0, (1.0,) * 4, difference, is_origin=is_origin)
        return Provenance(apart={WEIGHT: (one._replace(difference=0.0, is_origin=False), one)})

    assert np.isnan(error(ours, theirs))
    for difference, is_origin, expected in (
        (0.1, False, 0.1),
        (0.1, True, 0.3),
        (0.7, True, 0.7),
    ):
        merge = replace(ours, provenance=told(difference, is_origin))
        assert error(merge, theirs) == error(theirs, merge) == pytest.approx(expected)
    both = replace(ours, provenance=told(0.2, False)), replace(theirs, provenance=told(0.6, False))
    assert error(*both) == error(*both[::-1]) == pytest.approx(0.6)
    alone = replace(matching, bench=np.full(len(nodes), -1))
    assert np.isnan(apart_errors(theirs, both[0], alone, profile)).all()
    assert np.isnan(apart_errors(both[0], both[1], matching, ())).all()


def test_the_rank_that_has_a_whole_weight_to_itself(tmp_path: Path) -> None:
    """As those of a pipeline; a weight of another size has no counterpart, and accuses nobody."""
    other = side(tmp_path / "whole", WHOLE)

    def told(weight: Any, *ranks: int, **more: Any) -> list[tuple[int, float, Fact | None]]:
        ours = side(tmp_path / f"ours{len(list(tmp_path.iterdir()))}", weight)
        origins = [ranks] * len(ours.tree)
        ours = replace(ours, provenance=Provenance(origins=origins))
        partner = {row: row for row in range(3)}
        found = with_faulty_shares(ours, other, partner, frozenset(), **more).provenance
        assert found is not None
        return [(one.rank, one.difference, one.note) for one in found.apart.get(WEIGHT, ())]

    [(rank, difference, note)] = told(WHOLE * 1.5, 6)
    assert rank == 6
    assert note is not None
    assert tell(note) == "1.5 times"
    assert difference == pytest.approx(0.5)  # of the largest statistic, the norm
    [(_, _, note)] = told(WHOLE + 1, 6)
    assert note is None
    assert told(WHOLE, 6) == told(WHOLE * 1.5, 6, 7) == []
    assert told(WHOLE * 1.5, 6, is_reference=True) == []
    assert told(np.resize(WHOLE, (8, 2)), 6) == []
    assert told(np.where(WHOLE == 6, np.inf, WHOLE), 6) == [(6, 1.0, None)]
