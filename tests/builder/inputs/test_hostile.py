"""Every row of the table of hostile input ends with the sentence that stands beside it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from msprobe_builder.command.main import main
from tests.builder.inputs.hostile import CASES, Case
from tests.builder.small_dumps import write_dump

SECONDS = 60  # none of them takes one, unless it hangs


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))
def test_hostile_input_ends_with_its_sentence(
    case: Case,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("npu", "bench"):
        write_dump(tmp_path / name, case.data or {}, case.construct, case.stack)
    (tmp_path / "compare.json").write_text('{"npu_path": "npu", "bench_path": "bench"}')
    case.spoil(tmp_path)
    monkeypatch.chdir(tmp_path)
    with ended_in_time():
        status = main(["-i", "compare.json", "-o", "out", *case.options])
    said = "".join(capsys.readouterr())
    assert "Traceback" not in said
    assert case.sentence in said.replace(str(tmp_path) + "/", ""), said
    assert status == case.status, said
    written = list(tmp_path.rglob("*.vis.db"))
    assert bool(written) == (case.status in (0, 3))
    assert not list(tmp_path.rglob("*.building*"))
    assert all(character.isprintable() for line in said.splitlines() for character in line)


@contextmanager
def ended_in_time() -> Iterator[None]:
    """Fails the test, instead of holding up all others, when what it does hangs."""

    def fail(*_: object) -> None:
        pytest.fail(f"It took more than {SECONDS} s.")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_the_table_names_each_case_once() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
