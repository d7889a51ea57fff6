"""Where NaN and infinity began, over ranks and steps: what is received was made elsewhere."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from msprobe_builder.facts.wording import tell
from msprobe_builder.tables.ranks import export_ranks
from tests.builder.running import run_here
from tests.builder.small_dumps import (
    Record,
    communicate,
    forward,
    group,
    number,
    tensor,
    write_dump,
)

NAN, INF = math.nan, math.inf
OK = tensor()
BAD = tensor(NAN, high=NAN, low=NAN, mean=NAN)
ZERO = tensor(0.0, high=0.0, low=0.0)
MASK = tensor(INF, high=0.0, low=-INF, mean=-INF)
HALF = tensor(4e4, high=4e4, low=-1.0, dtype="torch.float16")
HALF_OVER = tensor(INF, high=INF, low=-1.0, mean=INF, dtype="torch.float16")
DIVISION = "Tensor.__truediv__.0.forward"
SUM = "Distributed.all_reduce.0.forward"
PASSED = {"input": [BAD], "output": [BAD]}

Rank = Mapping[str, Record]
Steps = Sequence[Sequence[Rank]]  # of each step the ranks


def reduced(given: Record, got: Record, *ranks: int) -> Record:
    return communicate(given, after=[got, group(*ranks)], group=group(*ranks))


class Case(NamedTuple):
    steps: Steps
    step: int
    rank: int
    name: str
    said: str
    critical: set[tuple[int, int, str]]  # step, rank, name


def both(first: Rank, second: Rank) -> Steps:
    return [[first, second]]


DIVIDES = {DIVISION: forward([OK, ZERO], [BAD])}
CLEAN: Rank = {"Tensor.__mul__.0.forward": forward([OK, OK], [OK])}
CASES = {
    "in a backward pass": Case(
        both(
            {**CLEAN, SUM: reduced(OK, BAD, 0, 1)},
            {**DIVIDES, "Tensor.__truediv__.0.backward": PASSED, SUM: reduced(BAD, BAD, 0, 1)},
        ),
        *(0, 1, DIVISION, "divides by zero"),
        {(0, 1, DIVISION)},
    ),
    "a backward call whose gradient is finite": Case(
        both(
            {**CLEAN, SUM: reduced(OK, BAD, 0, 1)},
            {
                **DIVIDES,
                "Functional.nll_loss.0.forward": forward([BAD], [BAD]),
                "Functional.nll_loss.0.backward": {"input": [OK], "output": [BAD]},
                SUM: reduced(BAD, BAD, 0, 1),
            },
        ),
        *(0, 1, DIVISION, "divides by zero"),
        {(0, 1, DIVISION)},
    ),
    "sent": Case(
        both(
            {"Distributed.recv.0.forward": communicate(BAD, number(1), after=[BAD, number(1)])},
            {**DIVIDES, "Distributed.send.0.forward": communicate(BAD, number(0))},
        ),
        *(0, 1, DIVISION, "divides by zero"),
        {(0, 1, DIVISION)},
    ),
    "gathered": Case(
        both(
            {"Distributed.all_gather.0.forward": communicate([OK, OK], OK, after=[[OK, BAD], OK])},
            {
                **DIVIDES,
                "Distributed.all_gather.0.forward": communicate(
                    [OK, OK], BAD, after=[[OK, BAD], BAD]
                ),
            },
        ),
        *(0, 1, DIVISION, "divides by zero"),
        {(0, 1, DIVISION)},
    ),
    "in a sum that leaves the range of its type": Case(
        both(
            {SUM: reduced(HALF, HALF_OVER, 0, 1)},
            {SUM: reduced(HALF, HALF_OVER, 0, 1)},
        ),
        *(0, 0, SUM, "leaves the range of float16, which ends at 6.55e+04"),
        {(0, 0, SUM), (0, 1, SUM)},
    ),
    "perhaps on a rank that was not recorded": Case(
        both(
            {SUM: reduced(OK, BAD, 0, 1, 2)},
            {SUM: reduced(OK, BAD, 0, 1, 2)},
        ),
        *(0, 0, SUM, "were not recorded"),
        {(0, 0, SUM), (0, 1, SUM)},
    ),
    "in what one rank was given": Case(
        both(
            {**CLEAN, SUM: reduced(OK, BAD, 0, 1)},
            {"Tensor.__mul__.0.forward": forward([BAD, OK], [BAD]), SUM: reduced(BAD, BAD, 0, 1)},
        ),
        *(0, 1, "Tensor.__mul__.0.forward", "no recorded call has made it"),
        set(),
    ),
    "in the second of three steps": Case(
        [
            [CLEAN, CLEAN],
            [{SUM: reduced(OK, BAD, 0, 1)}, {**DIVIDES, SUM: reduced(BAD, BAD, 0, 1)}],
            [{"Torch.add.0.forward": forward([BAD, OK], [BAD])}, DIVIDES],
        ],
        *(1, 1, DIVISION, "Everything else received it, on rank 0 too"),
        {(1, 1, DIVISION), (2, 1, DIVISION)},
    ),
    "on all ranks alike": Case(
        both(DIVIDES, DIVIDES),
        *(0, 0, DIVISION, "So do ranks 0 and 1"),
        {(0, 0, DIVISION), (0, 1, DIVISION)},
    ),
    "twice": Case(
        both(
            {**CLEAN, "Torch.log.0.forward": forward([ZERO], [BAD])},
            {**DIVIDES, **CLEAN},
        ),
        *(0, 1, DIVISION, "1 other call makes NaN or infinity"),
        {(0, 1, DIVISION), (0, 0, "Torch.log.0.forward")},
    ),
}


def write_steps(folder: Path, steps: Steps) -> None:
    for step, ranks in enumerate(steps):
        for rank, data in enumerate(ranks):
            write_dump(folder / f"step{step}" / f"rank{rank}", data)


def built(folder: Path, *options: str) -> Path:
    compare = folder / "compare.json"
    compare.write_text(json.dumps({"npu_path": str(folder / "run")}))
    done = run_here(["-i", str(compare), "-o", str(folder / "out"), "--workers", "1", *options])
    assert done.returncode == 0, done.stderr
    [database] = (folder / "out").glob("*.vis.db")
    return database


def verdict_in(database: Path) -> Verdict:
    with opened(database) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return verdict


def first_named(database: Path) -> tuple[int, int, str]:
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT step, rank, subject FROM diagnostic WHERE code = 'overflow_origin'"
        [found] = connection.execute(query)
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_overflow_verdict_and_table_name_the_same_call(tmp_path: Path, case: Case) -> None:
    write_steps(tmp_path / "run", case.steps)
    database = built(tmp_path, "-oc")
    expected = (case.step, case.rank, case.name)
    assert first_named(database) == expected
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT step, rank, name FROM node_view WHERE overflow = 'critical'"
        assert set(connection.execute(query)) == case.critical
    verdict = verdict_in(database)
    best = verdict.suspects[0]
    assert (best.step, best.rank, best.node) == expected
    assert case.said in tell(verdict.said, "en")
    found = export_ranks(database, tmp_path, (), ()).first_not_finite
    assert found is not None
    assert (found.step, found.rank) == expected[:2]
    assert found.name.startswith(f"{case.name}.")


def test_without_the_option_the_verdict_says_it_too(tmp_path: Path) -> None:
    case = CASES["sent"]
    write_steps(tmp_path / "run", case.steps)
    verdict = verdict_in(built(tmp_path))
    assert verdict.conclusion == "fault"
    assert (verdict.suspects[0].rank, verdict.suspects[0].node) == (1, DIVISION)
    assert "came from rank 1" in " ".join(
        tell(place.said, "en") for place in verdict.places if place.rank == 0
    )


def test_a_rank_that_is_added_later_is_heard(tmp_path: Path) -> None:
    """Alone the sum seems to have made what a rank gave that comes later."""
    receives, gives = CASES["in a backward pass"].steps[0]
    write_dump(tmp_path / "run" / "step0" / "rank0", receives)
    database = built(tmp_path, "-oc")
    assert first_named(database)[1:] == (0, SUM)
    write_dump(tmp_path / "run" / "step0" / "rank1", gives)
    compare = str(tmp_path / "compare.json")
    done = run_here(["-i", compare, "--append", str(database), "-oc", "--workers", "1"])
    assert done.returncode == 0, done.stderr
    assert first_named(database)[1:] == (1, DIVISION)
    assert verdict_in(database).suspects[0].node == DIVISION


@pytest.mark.parametrize(
    ("name", "record", "said"),
    [
        (DIVISION, forward([OK, number(0)], [BAD]), "input.1 is 0 throughout"),
        (DIVISION, forward([OK, tensor(low=0.0)], [BAD]), "input.1 holds 0"),
        (DIVISION, forward([OK, OK], [BAD]), "is finite, output.0 is not"),
        ("Torch.log.0.forward", forward([tensor(low=-2.0)], [BAD]), "goes down to -2"),
        ("Torch.sqrt.0.forward", forward([tensor(low=-2.0)], [BAD]), "takes the root of input.0"),
        ("Functional.softmax.0.forward", forward([MASK], [BAD]), "some row of it completely"),
        ("Torch.mul.0.forward", forward([HALF, HALF], [HALF_OVER]), "leaves the range of float16"),
        ("Torch.mul.0.backward", {"input": [HALF], "output": [HALF_OVER]}, "loss scaler"),
    ],
)
def test_what_it_was_made_of_is_said(tmp_path: Path, name: str, record: Record, said: str) -> None:
    write_dump(tmp_path / "run" / "step0" / "rank0", {name: record})
    assert said in tell(verdict_in(built(tmp_path)).said, "en")


def test_gradients_that_ranks_reduce_unseen_are_received(tmp_path: Path) -> None:
    """As DistributedDataParallel reduces them: no call shows it."""
    calls: dict[str, Any] = {
        "Module.a.Linear.forward.0": forward([OK], [OK]),
        "Module.a.Linear.backward.0": {"input": [OK], "output": [OK]},
        "Module.a.Linear.parameters_grad": {"weight": [BAD]},
    }
    bad = {
        "Module.a.Linear.forward.0": forward([OK], [OK]),
        "Functional.mse_loss.0.forward": forward([OK], [tensor(INF, high=INF, low=INF, mean=INF)]),
        "Module.a.Linear.backward.0": {"input": [BAD], "output": [BAD]},
        "Module.a.Linear.parameters_grad": {"weight": [BAD]},
    }
    for rank, data in enumerate((calls, bad)):
        construct: dict[str, Any] = {one: None for one in data if "parameters_grad" not in one}
        write_dump(tmp_path / "run" / "step0" / f"rank{rank}", data, construct)
    database = built(tmp_path, "-oc")
    assert first_named(database) == (0, 1, "Functional.mse_loss.0.forward")


def test_masks_are_no_beginning(tmp_path: Path) -> None:
    softmax = {"Functional.softmax.0.forward": forward([MASK], [OK])}
    write_steps(tmp_path / "run", both(softmax, softmax))
    database = built(tmp_path, "-oc")
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT count(*) FROM not_finite").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM suspect").fetchone() == (0,)
    assert export_ranks(database, tmp_path, (), ()).first_not_finite is None
