"""What is told by default is told by the rules or by the model of error, and leaves neither out."""

from __future__ import annotations

import pytest

from tests.properties.conftest import Tell, judged_by
from tests.properties.telling import Accused
from tests.properties.test_same_verdict import CASES, Folders

FAULT = "fault"


@pytest.fixture(scope="module")
def tell_model(tmp_path_factory: pytest.TempPathFactory) -> Tell:
    return judged_by("model", tmp_path_factory)


@pytest.fixture(scope="module")
def tell_both(tmp_path_factory: pytest.TempPathFactory) -> Tell:
    return judged_by("both", tmp_path_factory)


def place(one: Accused) -> tuple[str, str]:
    return one.side, one.node.rpartition(".")[0]


@pytest.mark.parametrize("case", CASES)
def test_who_is_named_first_is_named_by_one_of_the_two(
    case: str, recorded: Folders, tell: Tell, tell_model: Tell, tell_both: Tell
) -> None:
    npu, bench = recorded(case)
    rules, model, both = (judge(npu, bench) for judge in (tell, tell_model, tell_both))
    firsts = [place(one.suspects[0]) for one in (rules, model) if one.suspects]
    named = [place(one) for one in both.suspects]
    assert set(named) <= {place(one) for told in (rules, model) for one in told.suspects}
    assert named[:1] == firsts[:1] or named[0] in firsts
    conclusions = {rules.conclusion, model.conclusion}
    if conclusions == {FAULT}:
        assert both.conclusion == FAULT
        assert set(firsts) <= set(named)
    if FAULT not in conclusions:
        assert both.conclusion != FAULT
