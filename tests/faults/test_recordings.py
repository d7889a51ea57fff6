"""What is recorded is kept for the state of what makes it, and old states are cleared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import recordings
from tests.faults.case import Case
from tests.faults.recordings import recorded

CASE = Case("recommender", "bag_mode", seed=41)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache for a test."""
    monkeypatch.setattr(recordings, "CACHE", tmp_path / "cache")
    recordings.state.cache_clear()
    yield tmp_path / "cache"
    recordings.state.cache_clear()


def files(folder: Path) -> dict[str, bytes]:
    found = [path for path in folder.rglob("*.json") if path.name != "config.json"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_a_case_is_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    truth = recorded(CASE, first)
    assert truth
    monkeypatch.setattr(recordings, "run", None)  # would fail
    assert recorded(CASE, second) == truth
    assert files(second) == files(first)
    assert any(name.endswith("dump.json") for name in files(first))


def test_another_source_is_another_state(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of the states the latest two stay."""
    for name in ("architectures", "record.py"):
        assert any(name in pattern for pattern in recordings._SOURCES)
    source = tmp_path / "msprobe_collector" / "hooks.py"
    source.parent.mkdir()
    monkeypatch.setattr(recordings, "REPOSITORY", tmp_path)
    states = []
    for number in range(3):
        source.write_text(f"number = {number}")
        recordings.state.cache_clear()
        states.append(recordings.state())
        os.utime(states[-1], (number, number))
    assert len(set(states)) == 3
    assert sorted(cache.iterdir()) == sorted(states[1:])
