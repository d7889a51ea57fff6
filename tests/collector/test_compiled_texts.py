"""The compiled module writes records and rows of flow as Python does, to the byte."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.dump.flow_layout import Maker, Mark
from msprobe_collector.one_pass import loaded
from msprobe_collector.record import flow
from msprobe_collector.record.origins import Found, Origin, Sender, Share
from msprobe_collector.write.records import Leaf, encode, record_text
from msprobe_collector.write.sketch_file import text_and_shown

pytestmark = pytest.mark.skipif(loaded.compiled is None, reason="it is not there")

_SINGLE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6), st.just(1 << 70)
)


def _nested(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.one_of(st.text(max_size=4), st.integers(0, 3), st.none())
    return st.one_of(
        st.lists(parts, max_size=4),
        st.lists(parts, max_size=3).map(tuple),
        st.dictionaries(keys, parts, max_size=4),
        st.dictionaries(st.text(max_size=4), parts, max_size=4).map(Leaf),
    )


_VALUES = st.recursive(_SINGLE, _nested, max_leaves=12)


@st.composite
def _tensors(draw: st.DrawFn) -> Leaf:
    """The record of a tensor, mostly with a sketch."""
    numbers = {key: draw(_SINGLE | st.floats()) for key in ("Max", "Min", "Mean", "Norm")}
    shape = draw(st.lists(st.integers(0, 5), max_size=3))
    made = Leaf(type="torch.Tensor", dtype="torch.float32", shape=shape, **numbers)
    if draw(st.booleans()):
        made.row = draw(st.integers(-1, 1 << 31))
    return made


_RECORDS = st.dictionaries(
    st.sampled_from(
        ("input_args", "input_kwargs", "output", "parameters", "is_recompute", "0.weight")
    ),
    st.recursive(_SINGLE | _tensors(), _nested, max_leaves=8),
    max_size=5,
)


class _Others(NamedTuple):
    """Values that JSON has no text for."""

    here: object = object
    there: complex = 1j


@given(_VALUES | st.just(_Others()) | st.just({"a": _Others(), "b": {1, 2} - {1}}))
def test_a_record_has_the_text_that_python_makes(value: Any) -> None:
    compiled = record_text(value)
    _forget(value)
    assert compiled == _by_python(record_text, value)


@given(_RECORDS, st.sampled_from(("a.forward", "a.parameters_grad")))
def test_which_tensor_has_which_sketch_is_told_alike(record: dict[str, Any], name: str) -> None:
    compiled = text_and_shown(name, record)
    _forget(record)
    assert compiled == _by_python(text_and_shown, name, record)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_reads_as_python_writes_it(number: float) -> None:
    made = Leaf(type="float", value=number).text
    assert made == f'{{"type": "float", "value": {number!r}}}'
    assert not math.isfinite(number) or f": {number!r}}}" in encode({"value": number})


def _forget(value: Any) -> None:
    """The texts that leaves keep."""
    if isinstance(value, Leaf) and hasattr(type(value), "text"):
        del value.text
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list | tuple) and not isinstance(value, Leaf):
        for part in parts:
            _forget(part)


def _by_python(make: Any, *arguments: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loaded, "compiled", None)
        return make(*arguments)


@st.composite
def _makers(draw: st.DrawFn) -> list[tuple[int, list[Found | None]]]:
    origins = st.builds(
        Origin,
        st.sampled_from(Maker),
        st.sampled_from(("", "a", "b", "c")),
        st.integers(0, 5),
        st.integers(0, 9),
        st.just(0),
    )
    sender = Sender(draw(st.sampled_from(("a", "b", "c"))))
    sender.is_over, sender.section = draw(st.booleans()), draw(st.integers(0, 5))
    sender.ordinals = draw(st.none() | st.dictionaries(st.integers(0, 3), st.integers(0, 3)))
    sources = origins | st.builds(Share, st.just(sender), st.integers(0, 3))
    others = st.lists(sources, max_size=1).map(tuple)
    marks = st.integers(0, 127).map(Mark) | st.integers(0, 127)
    found = st.lists(st.none() | st.builds(Found, sources, marks, others), max_size=4)
    return draw(st.lists(st.tuples(st.integers(0, 5), found), max_size=3))


@given(_makers())
def test_rows_of_flow_are_packed_alike(makers: Any) -> None:
    numbers = {"a": 3, "b": 1 << 20}
    told = []
    for pack in (loaded.compiled.pack_rows, None):
        left: list[Any] = []
        names, packed = flow._Names({"c": 0}, []), bytearray()
        if pack is None:
            flow._pack(7, makers, numbers, names, packed, left)
        else:
            pack(7, makers, numbers, *names, packed, left, Share)
        told.append((names, packed, left))
    assert told[0] == told[1]


@pytest.mark.parametrize("function", ["leaf_text", "text_and_shown", "pack_rows"])
def test_arguments_of_another_kind_are_refused(function: str) -> None:
    with pytest.raises(TypeError):
        getattr(loaded.compiled, function)(*[7] * (1 if function == "leaf_text" else 4))


def test_what_a_record_raises_is_raised() -> None:
    class Silent:
        def __str__(self) -> str:
            raise LookupError("nobody knows")

    with pytest.raises(LookupError, match="nobody knows"):
        record_text({"input_args": [Silent()]})
