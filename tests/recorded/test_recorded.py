"""Everything that is recorded is judged as its file says."""

from __future__ import annotations

import hashlib
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder.database.open import opened
from tests.cases import REPEATED
from tests.conftest import REPOSITORY
from tests.recorded.case import FOLDER, RecordedCase, cases
from tests.recorded.judge import database_of, differences, facts_of
from tests.recorded.measured import distances, wrong_roles, wrong_sizes
from tests.sharing import make_once

CASES = list(cases())
CACHE = REPOSITORY / ".cache" / "recorded"


def unpacked(archive: Path) -> Path:
    """The folder with what lies in an archive; it stays for the runs that follow."""
    name = "_".join(archive.relative_to(FOLDER).parts).removesuffix(".tar.xz")
    content = hashlib.sha256(archive.read_bytes()).hexdigest()[:12]

    def unpack(folder: Path) -> None:
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        for older in CACHE.glob(f"{name}-*"):
            if older.is_dir() and older != folder:
                shutil.rmtree(older, ignore_errors=True)

    CACHE.mkdir(parents=True, exist_ok=True)
    return make_once(CACHE / f"{name}-{content}", unpack)


def params() -> list[Any]:
    """All cases; of those that say the same, ``make test`` tries the first and the last."""
    alike: dict[str, list[str]] = {}
    for case in CASES:
        alike.setdefault(_said(case.name), []).append(case.name)
    tried = {name for names in alike.values() for name in (names[0], names[-1])}
    return [
        pytest.param(case, id=case.name, marks=_marks(case, is_tried=case.name in tried))
        for case in CASES
    ]


def _marks(case: RecordedCase, *, is_tried: bool) -> list[pytest.MarkDecorator]:
    repeated = [] if is_tried else [REPEATED]
    missed = [pytest.mark.xfail(strict=True, reason=case.missed)] if case.missed else []
    return [*repeated, *missed]


def _said(name: str) -> str:
    """What the cases of a name say, whatever dump or noise they say it of."""
    return re.sub("/(n6|bf)_", "/", name.partition("-")[0])


@pytest.mark.parametrize("case", params())
def test_what_is_recorded_is_judged_as_its_file_says(case: RecordedCase, tmp_path: Path) -> None:
    dumps = None if case.archive is None else unpacked(case.archive)
    database = database_of(case, dumps, tmp_path)
    wrong = differences(case.facts, facts_of(database, case.facts))
    if case.told_from is not None:
        assert dumps is not None
        with opened(database) as connection:
            apart = distances(connection, dumps / str(case.npu), dumps / str(case.bench))
            wrong += wrong_sizes(connection, apart)
            wrong += wrong_roles(connection, apart, case.told_from)
    assert not wrong, "\n".join([case.why, *wrong])


def test_each_archive_is_used() -> None:
    archives = set(FOLDER.glob("*/*.tar.xz"))
    assert archives == {case.archive for case in CASES} - {None}
