"""What the recorded cases of one run say holds of what is recorded now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.collector.processes import run_in
from tests.one_run.programs import WORLD
from tests.one_run.record import PROGRAMS
from tests.recorded.case import FOLDER, read_case
from tests.recorded.judge import database_of, differences, facts_of


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_judged_as_its_case_says(name: str, tmp_path: Path) -> None:
    run_in(WORLD, PROGRAMS[name], str(tmp_path / "run"))
    case = replace(read_case(FOLDER / "one_run" / f"{name}.yaml"), npu="run/dump")
    facts = dict(case.facts)
    if facts.get("first"):  # its line may have moved
        facts["first"] = {key: one for key, one in facts["first"].items() if key != "source"}
    database = database_of(case, tmp_path, tmp_path)
    assert differences(facts, facts_of(database, facts)) == []
