"""A case that ``make case`` writes holds, and keeps nothing but what judging reads."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

import pytest

from tests.builder.small_dumps import forward, number, tensor, write_dump
from tests.recorded import case, write
from tests.recorded.judge import database_of, differences, facts_of

GIVEN, BENT = tensor(7.0, high=3.5, low=-2.5), tensor(2.0, high=1.0, low=0.0)


def run(folder: Path, factor: float) -> Path:
    """A product by ``factor`` in the second of two steps; the first is the same for all."""
    for step in (0, 1):
        now = factor if step else 1.5
        made = tensor(2.0 * now, high=now, low=0.0)
        name = "Tensor.__mul__.0.forward"
        data = {
            "Functional.relu.0.forward": forward([GIVEN], [BENT]),
            name: forward([BENT, number(now)], [made]),
            "Torch.tanh.0.forward": forward([made], [tensor(now, high=now / 2, low=0.0)]),
        }
        line = "File /home/somebody/work/models/attention.py, line 7, in forward, \\n x * scale"
        place = write_dump(folder / f"step{step}" / "rank0", data, stack={"0": [[name], [line]]})
        (place / "notes.txt").write_text("nobody reads this")
    return folder


@pytest.fixture
def area(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where cases are written to and read from, instead of the folder of this file."""
    folder = tmp_path / "recorded"
    monkeypatch.setattr(case, "FOLDER", folder)
    monkeypatch.setattr(write, "FOLDER", folder)
    folder.mkdir()
    return folder


def make(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["make case", *map(str, arguments)])
    write.main()


@pytest.mark.usefixtures("area")
def test_a_case_that_is_written_holds(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dumps = run(tmp_path / "n", 3.0), run(tmp_path / "b", 1.5)
    make(monkeypatch, "verdict/factor", *dumps, "--why", "Another factor.")
    assert "confirm that each is right" in capsys.readouterr().out
    [found] = case.cases()
    assert (found.name, found.why) == ("verdict/factor", "Another factor.")
    first = {"node": "Tensor.__mul__.0.forward", "step": 1, "source": "attention.py:7"}
    assert found.facts["conclusion"] == "fault"
    assert found.facts["first"].items() >= first.items()
    assert found.archive is not None
    with tarfile.open(found.archive) as archive:
        archive.extractall(tmp_path / "out", filter="data")
    files = {path.relative_to(tmp_path / "out").as_posix() for path in archive_files(tmp_path)}
    places = [f"factor/{side}/step1/rank0" for side in ("npu", "bench")]
    kept = ("dump", "construct", "stack")
    assert files == {f"{place}/{file}.json" for place in places for file in kept}
    stack = json.loads((tmp_path / "out" / places[0] / "stack.json").read_text())
    assert stack["0"][1] == ["File models/attention.py, line 7, in forward, \\n x * scale"]
    (tmp_path / "again").mkdir()
    again = database_of(found, tmp_path / "out", tmp_path / "again")
    assert differences(found.facts, facts_of(again, found.facts)) == []


def archive_files(folder: Path) -> list[Path]:
    return [path for path in (folder / "out").rglob("*") if path.is_file()]


def test_cases_share_an_archive(
    area: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumps = run(tmp_path / "n", 3.0), run(tmp_path / "b", 1.5)
    make(monkeypatch, "verdict/one", *dumps, "--why", "One.")
    make(monkeypatch, "verdict/other", *reversed(dumps), "--why", "Two.", "--archive", "one")
    assert {found.archive for found in case.cases()} == {area / "verdict" / "one.tar.xz"}
    with tarfile.open(area / "verdict" / "one.tar.xz") as archive:
        assert {name.partition("/")[0] for name in archive.getnames()} == {"one", "other"}


@pytest.mark.parametrize(
    ("facts", "said"),
    [("{}", "facts are"), ("{conclusoin: clean}", "facts are"), ("{first: {nod: x}}", "first")],
)
def test_a_file_that_says_nothing_is_refused(facts: str, said: str, area: Path) -> None:
    (area / "verdict").mkdir()
    path = area / "verdict" / "wrong.yaml"
    path.write_text(f"why: x\ndumps: a.tar.xz\nfacts: {facts}\n")
    with pytest.raises(ValueError, match=rf"wrong\.yaml.*{said}"):
        case.read_case(path)


def test_facts_that_do_not_hold_are_told() -> None:
    first = {"node": "Tensor.mul.0.forward", "strength": "weak"}
    found = {"conclusion": "fault", "first": first, "innocent": ["a.1"]}
    assert differences(found, found | {"innocent": []}) == []
    right = {"conclusion": ["clean", "undecided"], "first": {"node": "Tensor.add.*"}}
    wrong = differences(right | {"innocent": ["a.*"]}, found)
    assert [line.partition(" ")[0] for line in wrong] == list(found)
