"""What names of modules say: numbers, places in a list, words, and classes that do other things."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from msprobe_builder.align.evidence.words import Words, first_difference
from msprobe_builder.base.texts import Texts
from msprobe_builder.pipeline.compare import read_rank
from tests.builder.small_dumps import forward, tensor, write_dump

# Of a list the numbers of its modules, in the order in which they are called.
LISTS = st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True)
CLASSES = st.sampled_from(["Block", "Linear", "LayerNorm", "Dropout"])


def words_of_lists(lists: Sequence[tuple[str, str, Sequence[int]]]) -> tuple[Words, np.ndarray]:
    """What is known of lists of modules, and their nodes, one list behind the other."""
    names = [
        f"Module.net.{attribute}.{number}.{kind}.forward.0"
        for attribute, kind, numbers in lists
        for number in numbers
    ]
    with tempfile.TemporaryDirectory() as folder:
        data = {name: forward([tensor()], [tensor()]) for name in names}
        side, _ = read_rank(write_dump(Path(folder), data, dict.fromkeys(data)), Texts())
    node = {name: place for place, name in enumerate(side.tree.names)}
    return Words(side.tree), np.array([node[name] for name in names], dtype=np.int64)


def counted(numbers: Sequence[int]) -> list[int] | None:
    """The place of each module in a list; None where the list says nothing."""
    is_reversed = list(numbers) == sorted(numbers, reverse=True)
    if len(numbers) < (3 if is_reversed else 2):
        return None
    places = [sorted(numbers).index(one) for one in numbers]
    return [len(numbers) - 1 - one for one in places] if is_reversed else places


def runs_back(numbers: Sequence[int]) -> bool:
    return list(numbers) == sorted(numbers, reverse=True)


@settings(deadline=None)
@given(LISTS, LISTS, st.randoms(use_true_random=False))
def test_a_partner_at_another_place_of_as_long_a_list_is_counted_otherwise(
    numbers: list[int], others: list[int], random: object
) -> None:
    npu, a = words_of_lists([("layers", "Block", numbers)])
    bench, b = words_of_lists([("blocks", "Block", others)])
    order = list(range(len(b)))
    random.shuffle(order)  # type: ignore[attr-defined]
    partner = np.full(len(npu.of_node), -1, dtype=np.int64)
    pairs = list(zip(range(len(a)), order, strict=False))
    for one, other in pairs:
        partner[a[one]] = b[other]
    places, other_places = counted(numbers), counted(others)
    as_many = len(numbers) == len(others) and runs_back(numbers) == runs_back(others)
    found = npu.recounted(bench, partner)
    for one, other in pairs:
        if as_many and places is not None and other_places is not None:
            assert found[a[one]] == (places[one] != other_places[other])
        else:
            assert not found[a[one]]
    assert found.sum() <= len(pairs)


@settings(deadline=None)
@given(LISTS, st.integers(0, 3), st.booleans())
def test_lists_that_are_counted_from_another_number_agree_by_their_places(
    numbers: list[int], shift: int, alike: bool
) -> None:
    """Where most modules of one size are off by one number, and some say so."""
    npu, a = words_of_lists([("layers", "Block", numbers)])
    bench, b = words_of_lists([("layers", "Block", [one + shift for one in numbers])])
    same = np.eye(len(a), dtype=bool) if alike else np.zeros((len(a), len(b)), dtype=bool)
    found = npu.agreement(a, bench, b, same)
    said = npu.said(a, bench, b)
    assert (said == said[0, 0]).all()
    assert said[0, 0] == 1.2 + 0.8
    if counted(numbers) is None:
        assert (found == said).all()
        return
    away = np.abs(found - said[0, 0])
    assert (away == 1.0).all()
    if alike or shift == 0:
        assert ((found > said[0, 0]) == np.eye(len(a), dtype=bool)).all()


@settings(deadline=None)
@given(CLASSES, CLASSES)
def test_classes_of_other_kinds_do_other_things_whatever_they_are_called(
    kind: str, other: str
) -> None:
    npu, a = words_of_lists([("parts", kind, [0, 1, 2])])
    bench, b = words_of_lists([("parts", other, [0, 1, 2])])
    is_other = "Block" not in (kind, other) and kind != other
    assert npu.do_other_things(a, bench, b).tolist() == [is_other] * 3
    agreed = npu.said(a, bench, b)
    assert (agreed < 0).all() if is_other else (agreed > 0).all()
    # Either side says the same of the other.
    assert (bench.said(b, npu, a) == agreed.T).all()


@given(st.lists(st.sampled_from("ab"), max_size=4), st.integers(0, 9), st.integers(0, 9))
def test_paths_differ_first_in_a_word_or_in_a_number(head: list[str], one: int, other: int) -> None:
    def path(last: str) -> str:
        return ".".join(["Module", *head, last, "end", "Block"])

    assert first_difference(path(f"layer{one}"), path(f"layer{other}")) == -1
    found = first_difference(path(f"layer{one}"), path(f"block{other}"))
    assert found == len(head)
    assert first_difference(path("x"), path("y")) == len(head)
    assert first_difference(path("x"), path("x")) == -1
    assert first_difference("Module.x.Block", "Module.x.y.Block") == 1


@settings(deadline=None)
@given(st.integers(3, 6), st.integers(1, 3))
def test_a_list_with_more_in_front_is_counted_on_by_as_many(count: int, more: int) -> None:
    """Once modules of one size say by how much, in lists of unequal length as well."""
    npu, a = words_of_lists([("layers", "Block", range(count))])
    bench, b = words_of_lists([("layers", "Block", range(count + more))])
    same = np.eye(count, count + more, more, dtype=bool)
    found = npu.agreement(a, bench, b, same) - npu.said(a, bench, b)
    assert (found == np.where(same, 1.0, -1.0)).all()
    # Nothing is counted where sizes tell that the lists are of other modules.
    told = npu.agreement(a, bench, b, same, sizes_tell=True) - npu.said(a, bench, b)
    assert (told == np.where(same, 1.0, 0.0)).all()
    none = np.zeros_like(same)
    by_number = npu.agreement(a, bench, b, none) - npu.said(a, bench, b)
    assert (by_number == np.where(np.eye(count, count + more, dtype=bool), 1.0, -1.0)).all()


@settings(deadline=None)
@given(*[st.sampled_from(["first", "second", "first_second", "third"])] * 4)
def test_words_of_the_attribute_count_more_than_those_of_the_class(
    attribute: str, kind: str, other: str, other_kind: str
) -> None:
    """By the share of the words that both names have."""
    npu, a = words_of_lists([(attribute, kind, [0, 1, 2])])
    bench, b = words_of_lists([(other, other_kind, [0, 1, 2])])

    def shared(one: str, two: str) -> float:
        words, others = set(one.split("_")), set(two.split("_"))
        return len(words & others) / len(words | others)

    said = 1.2 * shared(attribute, other) + 0.8 * shared(kind, other_kind)
    assert np.allclose(npu.said(a, bench, b), said)
