"""A run that is killed while it writes: what was there before can be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder.base.errors import BuildError
from msprobe_builder.dump.json_stream import DumpReader
from msprobe_builder.files.text_files import parse_appended
from msprobe_collector.write.step_files import AppendedObject

HEAD = '{\n "task": "statistics",\n "argument_gradients": true,\n "data": {'
STEPS = [
    (["a", "b"], ["later"]),
    (["c"], []),
    ([], ["much", "that", "passes"]),
    (["d"], ["x"]),
    (["e" * 3000, "f"], []),
]


class KilledError(BaseException):
    """Nothing of ours catches it."""


def entries(names: list[str]) -> list[str]:
    return [f'  "{name}": {{"value": "{name}"}}' for name in names]


def kills(monkeypatch: pytest.MonkeyPatch, path: Path) -> Iterator[set[str]]:
    """Kill at each write in turn, in its midst; gives the names that lasted before."""
    write = os.pwrite
    for at in range(1, 40):
        left = at

        def dying(file: int, content: Any, offset: int) -> int:
            nonlocal left
            left -= 1
            if left == 0:
                write(file, content[: len(content) // 2 if len(content) > 8 else 0], offset)
                raise KilledError
            return write(file, content, offset)

        file = AppendedObject(path, HEAD, "\n }\n}")
        monkeypatch.setattr(os, "pwrite", dying)
        lasting: set[str] = set()
        try:
            for names, passing in STEPS:
                file.append(entries(names), entries(passing))
                lasting |= set(names)
        except KilledError:
            monkeypatch.setattr(os, "pwrite", write)
            yield lasting
        else:
            monkeypatch.setattr(os, "pwrite", write)
            assert lasting == {name for names, _ in STEPS for name in names}
            return
        finally:
            file.close()
    pytest.fail("it never ended")


def test_a_killed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dump.json"
    cut = 0
    for lasting in kills(monkeypatch, path):
        reader = DumpReader(path)
        found = dict(reader)
        assert lasting <= found.keys()
        assert all(record == {"value": name} for name, record in found.items())
        assert parse_appended(path.read_bytes()) == (
            {**reader.header, "data": found},
            reader.is_cut_off,
        )
        cut += reader.is_cut_off
    assert cut > 3


@pytest.mark.parametrize("head", ['{"task": "statistics", "data": {}}', '{"data": {}} {"a": 1}'])
def test_files_of_other_recorders_end_where_they_end(head: str, tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(f"{head} and more")
    with pytest.raises(BuildError, match="goes on after its end"):
        dict(DumpReader(path))
