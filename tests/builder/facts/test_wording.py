"""Facts become sentences, and JSON and back; tests/data/wordings.json is the viewer's as well."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.facts.fact import (
    Argument,
    Fact,
    decode,
    encode,
    fact,
    from_plain,
    has_code,
    plain,
)
from msprobe_builder.facts.wording import calling, speaking, tell, word
from tests.conftest import REPOSITORY

SHARED = json.loads((REPOSITORY / "tests" / "data" / "wordings.json").read_text("utf-8"))
NAMES = st.from_regex(r"[a-z][a-z_]{0,9}", fullmatch=True).filter(lambda name: name != "code")


def facts_of(depth: int) -> st.SearchStrategy[Fact]:
    values: st.SearchStrategy[Argument] = (
        st.text() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    )
    if depth:
        values |= st.lists(values, max_size=3).map(tuple) | facts_of(depth - 1)
    arguments = st.dictionaries(NAMES, values, max_size=3)
    return st.builds(Fact, NAMES, arguments)


@pytest.mark.parametrize("case", SHARED["cases"], ids=lambda case: str(case["text"]))
def test_facts_are_worded_as_in_the_viewer(case: dict[str, Any]) -> None:
    with calling(tuple(case.get("names", ("", "")))):
        assert word(from_plain(case["said"]), SHARED["wordings"]) == case["text"]
    assert plain(from_plain(case["said"])) == case["said"]


@pytest.mark.parametrize("text", SHARED["texts"])
def test_what_is_no_fact_is_a_text_as_it_stands(text: str) -> None:
    assert [one.code for one in decode(text)] == ["text"]
    assert tell(decode(text), "en") == tell(decode(text), "zh") == text


def test_nothing_says_nothing() -> None:
    assert decode("") == decode(encode(())) == ()
    assert from_plain(None) == ()
    assert from_plain({"code": "clean"}) == ()


@given(st.lists(facts_of(2), max_size=3).map(tuple))
def test_facts_come_back_from_a_file(facts: tuple[Fact, ...]) -> None:
    assert decode(encode(facts)) == facts


def test_numbers_that_json_lacks_are_texts() -> None:
    said = fact("differs.norm", times=float("nan"))
    assert json.loads(encode(said)) == [{"code": "differs.norm", "times": "nan"}]
    assert tell(decode(encode(said))) == tell(said)


def test_a_language_is_spoken_within_a_block() -> None:
    said = fact("clean", nodes=1234)
    assert tell(said) == "No fault beyond rounding in 1,234 nodes."
    with speaking("zh"):
        assert tell(said) == "1,234 个节点中没有超出舍入的误差。"
        assert tell(said, "en") == "No fault beyond rounding in 1,234 nodes."
    assert tell(said) == "No fault beyond rounding in 1,234 nodes."


def test_facts_are_found_by_their_codes() -> None:
    facts = fact("clean", nodes=3), fact("call_missing")
    assert has_code(facts, "call_extra", "call_missing")
    assert not has_code(facts, "call_extra")
