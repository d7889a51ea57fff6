"""Reading dump.json record by record."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.base.errors import BuildError
from msprobe_builder.dump import json_stream
from msprobe_builder.dump.json_stream import DumpReader

_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)
_DATA = st.dictionaries(st.text(max_size=12), _VALUES, max_size=6)
_HEADERS = st.dictionaries(
    st.text(max_size=6).filter(lambda key: key != "data"), _VALUES, max_size=3
)


def _read(path: Path, text: str, window: int) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    path.write_text(text, encoding="utf-8")
    with patch.object(json_stream, "_WINDOW", window):  # the size of the window is the subject
        reader = DumpReader(path)
        records = list(reader)
    return reader.header, records


@given(
    before=_HEADERS,
    data=_DATA,
    after=_HEADERS,
    window=st.integers(1, 40),
    indent=st.sampled_from([None, 1]),
)
def test_equals_the_standard_library(
    tmp_path_factory: pytest.TempPathFactory,
    before: dict[str, Any],
    data: dict[str, Any],
    after: dict[str, Any],
    window: int,
    indent: int | None,
) -> None:
    content = {**before, "data": data, **after}
    text = json.dumps(content, indent=indent)
    header, records = _read(tmp_path_factory.mktemp("json") / "dump.json", text, window)
    assert dict(records) == data
    assert header == {key: value for key, value in content.items() if key != "data"}


def test_bare_nan_and_infinity(tmp_path: Path) -> None:
    text = '{"data": {"a": {"Max": NaN, "Min": -Infinity, "Mean": Infinity, "Norm": 1e400}}}'
    _, [(_, record)] = _read(tmp_path / "dump.json", text, 5)
    assert math.isnan(record["Max"])
    assert (record["Min"], record["Mean"], record["Norm"]) == (-math.inf, math.inf, math.inf)


_WHOLE = '{"task": "statistics", "data": {"a": {"x": [1, 2.5, null]}, "b": {}}, "level": "L0"}'


@pytest.mark.parametrize("window", [1, 7, 1 << 20])
def test_every_truncation_is_one_sentence(tmp_path: Path, window: int) -> None:
    path = tmp_path / "dump.json"
    for end in range(len(_WHOLE)):
        with pytest.raises(BuildError) as caught:
            _read(path, _WHOLE[:end], window)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["[]", "null", '{"data": []}', '{"task": 1}', '{"data": {}} x', '{"data": {"a" 1}}', "{1: 2}"],
)
def test_other_content_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BuildError, match=r"dump\.json"):
        _read(tmp_path / "dump.json", text, 100)


def test_not_utf8_and_too_deep(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_bytes(b'{"data": {"\xff": 1}}')
    with pytest.raises(BuildError, match="UTF-8"):
        list(DumpReader(path))
    path.write_text('{"data": {"a": ' + "[" * 100_000 + "]" * 100_000 + "}}")
    with pytest.raises(BuildError, match="too deeply"):
        list(DumpReader(path))
