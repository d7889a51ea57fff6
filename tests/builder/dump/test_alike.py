"""Records that are read by an example say what they say when each is read in full."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump import compiled, json_stream, read
from msprobe_builder.dump.examples import WrittenAlike
from msprobe_builder.dump.read import Dump, read_dump

# From which size on records are read by example, and by which module.
WAYS = [(1 << 40, None), (-1, None), (-1, compiled.compiled)]
NUMBERS = st.one_of(
    st.floats(),
    st.integers(-3, 3),
    st.none(),
    st.booleans(),
    st.sampled_from(["NaN", "x", 1 << 2000]),
)
KEYS = ["Max", "Min", "Mean", "Norm"]
TENSOR = st.tuples(st.permutations(KEYS), st.lists(NUMBERS, min_size=4, max_size=4)).map(
    lambda drawn: {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [2],
        **dict(zip(*drawn, strict=True)),
        "requires_grad": True,
    }
)
PLAIN = st.lists(st.floats(), min_size=4, max_size=4).map(
    lambda numbers: {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [2],
        **dict(zip(KEYS, numbers, strict=True)),
        "requires_grad": True,
    }
)
ARGUMENT = st.one_of(
    st.none(),
    st.fixed_dictionaries({"type": st.just("float"), "value": NUMBERS}),
    st.fixed_dictionaries({"type": st.just("dict"), "Max": NUMBERS, "value": NUMBERS}),
)
ITEM = st.one_of(PLAIN, PLAIN, PLAIN, TENSOR, ARGUMENT)
RECORD = st.fixed_dictionaries(
    {"input_args": st.lists(ITEM, max_size=2), "output": st.lists(ITEM, max_size=1)},
    optional={
        "is_recompute": st.booleans(),
        "input_kwargs": st.dictionaries(st.sampled_from("ab"), ITEM),
        "input": st.lists(ITEM, max_size=1),
        # Stand beside what they are read in place of, in either order, where that is asked for.
        "input_gradients": st.lists(ITEM, max_size=2),
        "output_gradients": st.lists(ITEM, max_size=2),
    },
)
GRADIENTS = st.dictionaries(st.sampled_from(["weight", "bias"]), st.lists(ITEM, max_size=2))


def columns(dump: Dump) -> dict[str, Any]:
    """All that a dump says of its parameters."""
    found = dump.parameters
    return {
        **{
            name: getattr(found, name).tolist()
            for name in ("record", "section", "name_id", "missing")
        },
        **{name: getattr(found, name).tolist() for name in ("type_id", "dtype_id", "shape_id")},
        **{name: getattr(found, name).tolist() for name in ("value_id", "requires_grad")},
        "statistics": found.statistic_columns().view(np.int64).tolist(),
        "texts": found.texts.values,
        "odd": (found.odd_statistics, found.unreadable, found.md5, found.file),
        "dump": (dump.records, dump.recomputed, dump.malformed, dump.repeated),
    }


def all_ways(folder: Path, text: str, by_argument: bool = False) -> list[dict[str, Any]]:
    """In full; by example; the same by the compiled module, where there is one."""
    (folder / "dump.json").write_text(text)
    (folder / "construct.json").write_text('{"Torch.a.0.forward": null}')
    (folder / "stack.json").write_text("{}")
    found = []
    for small, module in WAYS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(read, "_SMALL", small)
            patch.setattr(compiled, "compiled", module)
            found.append(columns(read_dump(folder, Texts(), by_argument)))
    return found


def same_all_ways(folder: Path, text: str, by_argument: bool = False) -> dict[str, Any]:
    full, *by_example = all_ways(folder, text, by_argument)
    for one in by_example:
        assert one == full
    return full


def written(
    records: list[dict[str, Any]], gradients: list[dict[str, Any]], indent: int | None
) -> str:
    data: dict[str, Any] = {"Torch.a.0.forward": {}}
    data |= {f"Torch.a.{number}.forward": record for number, record in enumerate(records, 1)}
    data |= {f"Module.m{number}.parameters_grad": one for number, one in enumerate(gradients)}
    return json.dumps({"task": "statistics", "data": data}, indent=indent)


@given(
    st.lists(RECORD, max_size=5),
    st.lists(GRADIENTS, max_size=3),
    st.sampled_from([None, 1, 1]),
    st.data(),
)
def test_any_records(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[dict[str, Any]],
    gradients: list[dict[str, Any]],
    indent: int | None,
    data: st.DataObject,
) -> None:
    """Each record three times: as it is, and with other numbers in its places."""
    folder = tmp_path_factory.mktemp("dump")
    again = [
        data.draw(st.just(record).map(lambda one: changed(one, data))) for record in records * 2
    ]
    text = written(records + again, gradients * 2, indent)
    same_all_ways(folder, text, data.draw(st.booleans()))


def changed(value: Any, data: st.DataObject) -> Any:
    """The same with some of the numbers and nulls replaced."""
    if isinstance(value, dict):
        return {key: changed(item, data) for key, item in value.items()}
    if isinstance(value, list):
        return [changed(item, data) for item in value]
    if isinstance(value, float) or value is None:
        return data.draw(st.one_of(st.floats(), st.just(value), st.none()))
    return value


ROW = (
    '{"type": "t", "dtype": "d", "shape": [1], "Max": %s, "Min": %s, "Mean": %s, "Norm": %s, '
    '"requires_grad": true}'
)
NUMBER = '{"type": "float", "value": %s}'
USUAL = ("1.0", "2.0", "3.0", "4.0")
NO_NORM, NO_MEAN = ("1.0", "2.0", "3.0", "null"), ("1.0", "2.0", "null", "4.0")
REVERSED = ROW.replace("Max", "-").replace("Norm", "Max").replace("-", "Norm")
TWICE = ROW.replace('"dtype"', '"type": "t", "dtype"')
SWAPPED = [
    [ROW % USUAL, TWICE % USUAL],
    [REVERSED % USUAL, REVERSED % ("5.0", "6.0", "7.0", "8.0")],
    [ROW % NO_NORM, ROW % NO_MEAN],
    [ROW % NO_NORM, (ROW % NO_MEAN).replace("Mean", "Me\\u0061n")],
    [ROW % USUAL, ROW.replace('"Max"', '"Min"', 1) % USUAL],
    [ROW % USUAL, ROW.replace("{", '{"Max": 9.0, ', 1) % USUAL],
    [ROW % USUAL, ROW % ("1.0", "2.0", "3", "4.0")],
    [ROW % USUAL, ROW % ("1e999", "-Infinity", "NaN", "-0.0")],
    [f"[{ROW % USUAL}, {NUMBER % 0.5}]", f"[{ROW % USUAL}, {NUMBER % 0.25}]"],
    [f"[null, {NUMBER % 0.5}, {ROW % USUAL}]", f"[0.5, {NUMBER % 'null'}, {ROW % USUAL}]"],
    [f"[{ROW % USUAL}, {NUMBER % '[0.5, 0.25]'}]", f"[{ROW % USUAL}, {NUMBER % '[0.5, 0.75]'}]"],
    [f"[{ROW % USUAL}, {NUMBER % value}]" for value in (r'"a\": 0.5"', r'"a\": 0.25"')],
    [ROW % ("1", "2.0", "3.0", "4.0"), ROW % ("1", "5.0", "6.0", "7.0")],
    [ROW % USUAL, ROW % ("1.0", "2e3", "3.0", "4E-7")],
    # On lines that end as records do.
    [ROW % USUAL, ROW.replace("{", '{"a": {"d": 1, "d": 2},\n "b": {"c": 1},', 1) % USUAL],
]


@pytest.mark.parametrize("pair", SWAPPED)
@pytest.mark.parametrize("order", [1, -1])
def test_what_looks_alike(tmp_path: Path, pair: list[str], order: int) -> None:
    records = [
        one if one.startswith("[") else f"[{one}]" for one in (*pair[::order], *pair[::order])
    ]
    items = (f'"Torch.a.{n}.forward": {{"output": {one}}}' for n, one in enumerate(records))
    data = ",\n ".join(items)
    text = f'{{"task": "statistics", "data": {{"Torch.z.0.forward": {{}},\n {data}}}}}'
    assert len(same_all_ways(tmp_path, text)["record"]) >= 4


NO_NUMBERS = ["01.5", "1.", ".5", "1.5.3", "1.5x", "+1.5", "\u0661.\u0665", "1.\u0665", "1_0.5"]


@pytest.mark.parametrize("number", [*NO_NUMBERS, "-NaN", "1.5\0", None])
def test_what_is_no_number(tmp_path: Path, number: str | None) -> None:
    """An example vouches for everything but numbers, and these are none."""
    wrong = ROW % ("1.0", "2.0", number, "4.0")
    if number is None:
        wrong = (ROW % USUAL).replace('": 2.0', "\0")
    rows = [ROW % USUAL, ROW % USUAL, wrong, ROW % USUAL, ROW % USUAL]
    items = (f'"Torch.a.{n}.forward": {{"output": [{one}]}}' for n, one in enumerate(rows))
    data = ",\n ".join(items)
    text = f'{{"task": "statistics", "data": {{"Torch.z.0.forward": {{}},\n {data}}}}}'
    (tmp_path / "construct.json").write_text('{"Torch.a.0.forward": null}')
    (tmp_path / "stack.json").write_text("{}")
    (tmp_path / "dump.json").write_text(text)
    for small, module in WAYS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(read, "_SMALL", small)
            patch.setattr(compiled, "compiled", module)
            with pytest.raises(BuildError, match="damaged"):
                read_dump(tmp_path, Texts())


@pytest.mark.parametrize("window", [1, 7, 300])
def test_windows_end_anywhere(dumps: Path, window: int) -> None:
    """Of a dump whose first records are read through a window that ends inside of them."""
    source = dumps / "llama_statistics" / "step0" / "rank"
    content = json.loads((source / "dump.json").read_text())
    content["data"] = dict(list(content["data"].items())[:40])
    folder = dumps / f"windows{window}"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "_WINDOW", window)
        full = same_all_ways(folder, json.dumps(content, indent=1))
    assert len(full["dump"][0]) == 40


@pytest.mark.parametrize("module", [None, compiled.compiled])
def test_most_records_of_a_model_are_read_by_example(dumps: Path, module: Any) -> None:
    """Otherwise all this were for nothing."""
    dump = dumps / "llama_statistics" / "step0" / "rank"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "_SMALL", -1)
        patch.setattr(compiled, "compiled", module)
        found = read_dump(dump, Texts()).parameters
    assert found._row_count() < len(found) / 2


BACKWARD = (
    f'{{"input": [{ROW % USUAL}], "input_gradients": [{ROW}], "output": [{ROW % USUAL}], '
    f'"output_gradients": [{ROW}]}}'
)


@pytest.mark.parametrize("module", [None, compiled.compiled])
def test_gradients_by_argument_are_read_by_example(tmp_path: Path, module: Any) -> None:
    """Those that nobody reads may differ, and the others stand in another order than is shown.

    Two of four: the last record of a file is always read in full.
    """
    numbers = [tuple(f"{n}.{place}" for place in range(1, 9)) for n in range(4)]
    rows = [BACKWARD % one for one in numbers]
    rows[1] = rows[1].replace("1.0", "7.0")  # the established gradients
    data = ",\n ".join(f'"Torch.a.{n}.backward": {one}' for n, one in enumerate(rows))
    text = f'{{"task": "statistics", "data": {{"Torch.z.0.forward": {{}},\n {data}}}}}'
    full = same_all_ways(tmp_path, text, by_argument=True)
    first = [float(one) for one in (*numbers[0][4:], *numbers[0][:4])]
    shown = np.array(full["statistics"]).view(np.float64).T.ravel()[:8].tolist()
    assert shown == first
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "_SMALL", -1)
        patch.setattr(compiled, "compiled", module)
        assert read_dump(tmp_path, Texts(), True).parameters._row_count() == 4


ANY_TEXT = st.lists(
    st.one_of(
        st.sampled_from(
            ['"a": {', '": {', "}", ",\n ", '},\n "', '": ', "1.5", "-0.0", "1e5", "NaN", "\\"]
        ),
        st.sampled_from(["-", "0", "01.5", "1.", "e9", "E-3", ".25", "Infinity", '"', "é", "\x1f"]),
        st.text(max_size=3),
    ),
    max_size=24,
).map("".join)


@pytest.mark.skipif(compiled.compiled is None, reason="nothing is compiled here")
@given(ANY_TEXT, st.booleans())
def test_any_text_is_taken_apart_alike(text: str, is_known: bool) -> None:
    """The same records with the same numbers, up to the same place."""
    found = []
    for module in (None, compiled.compiled):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiled, "compiled", module)
            twice: list[str] = []
            reader = WrittenAlike(dict, twice)
            read: list[list[Any]] = []
            for part in (text, text) if is_known else (text,):
                # What came behind a record once is expected behind it again.
                before = f'a": {{"b": 1.5}},\n "{part}}},\n "'
                records = reader.records(f'{before}{before}a": {{"b": 0.5}},\n "{part}', '},\n "')
                read.append([])
                while True:
                    try:
                        read[-1].append(repr(next(records)))
                    except StopIteration as end:
                        read[-1].append(end.value)
                        break
            found.append(read)
    assert found[0] == found[1]


def test_a_key_that_is_there_twice_is_told_once(tmp_path: Path) -> None:
    """Also where the lines inside of a record look like those between records."""
    row = ROW.replace("{", '{"a": {"d": 1, "d": 2},\n "b": {"c": 1},', 1) % USUAL
    data = ",\n ".join(f'"Torch.a.{n}.forward": {{"output": [{row}]}}' for n in range(3))
    text = f'{{"task": "statistics", "data": {{"Torch.z.0.forward": {{}},\n {data}}}}}'
    assert same_all_ways(tmp_path, text)["dump"][-1] == ("d", "d", "d")


@pytest.mark.parametrize("module", [None, compiled.compiled])
def test_whole_numbers_are_what_records_have_alike(tmp_path: Path, module: Any) -> None:
    """As some recorders write statistics of whole numbers; other numbers have rows of their own."""
    row = (
        '{"type": "torch.Tensor", "dtype": "torch.int64", "shape": [2], "Max": %s, "Min": -0, '
        '"Mean": %s, "Norm": null, "requires_grad": false}'
    )
    numbers = [(7, "0.5"), (7, "1.5"), (7, "2.5"), (9, "3.5"), (9, "NaN"), (7, "4.5")]
    data = ",\n ".join(
        f'"Torch.a.{n}.forward": {{"output": [{row % one}]}}' for n, one in enumerate(numbers)
    )
    text = f'{{"task": "statistics", "data": {{"Torch.z.0.forward": {{}},\n {data}}}}}'
    full = same_all_ways(tmp_path, text)
    shown = np.array(full["statistics"]).view(np.float64)
    assert shown[0].tolist() == [number for number, _ in numbers]
    assert shown[2, :4].tolist() == [0.5, 1.5, 2.5, 3.5]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "_SMALL", -1)
        patch.setattr(compiled, "compiled", module)
        # One of each kind, and the last of the file.
        assert read_dump(tmp_path, Texts()).parameters._row_count() == 3


def test_what_is_computed_of_a_number_is_computed_of_each(tmp_path: Path) -> None:
    row = '{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1], "md5": %s}'
    data = ",\n ".join(
        f'"Torch.a.{n}.forward": {{"output": [{row % one}]}}'
        for n, one in enumerate(("-1.5", "-2.5", "-3.5", "-4.5"))
    )
    text = f'{{"task": "statistics", "data": {{"Torch.z.0.forward": {{}},\n {data}}}}}'
    full = same_all_ways(tmp_path, text)
    shown = np.array(full["statistics"]).view(np.float64)
    assert shown[3].tolist() == [1.5, 2.5, 3.5, 4.5]
