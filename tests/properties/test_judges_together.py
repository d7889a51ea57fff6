"""What is told by default is told by the rules or by the model of error, and leaves neither out."""

from __future__ import annotations

import pytest

from tests.properties.conftest import Tell, judged_by
from tests.properties.telling import Accused
from tests.properties.test_same_verdict import Folders

FAULT = "fault"
# Where they agree, where one is told better by the rules, or by the model, and where one alone
# sees something, for certain or not.
CASES = (
    *("transformers/n6_mask_off1", "transformers/softmax_bf16", "transformers/neg_noise"),
    "equivalent_formulas/another_formula_for_the_same_is_no_fault-asked_control_bf16_1300",
    "equivalent_formulas/another_formula_for_the_same_is_no_fault-adapted_equal_places_bf16_1926",
    "step_functions/a_step_aside_is_no_fault-frac",
    "permutations/the_slice_that_shows_exchanged_rows_is_not_accused-1e_06",
    "undetermined_signs/of_equal_tensors_the_one_is_given_that_one_side_alone_has_made",
    "noise/a_wrong_gradient_is_found_in_a_deep_model_with_noise",
    "partial_dumps/a_micro_step_of_one_side_was_not_judged-3_2_the_reference",
)


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
    assert not named or named[0] in firsts
    if rules.conclusion == FAULT:
        assert place(rules.suspects[0]) in named
    conclusions = {rules.conclusion, model.conclusion}
    if conclusions == {FAULT}:
        assert both.conclusion == FAULT
    if FAULT not in conclusions:
        assert both.conclusion != FAULT
    if both.conclusion != FAULT:
        assert not [one for one in both.suspects if one.strength == "strong"]
