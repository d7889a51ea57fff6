"""Match files: what a person chose comes first, and everything else fills in around it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder.base.codes import Source
from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.options import BuildOptions
from msprobe_builder.match.match_file import read_match_file
from tests.builder.match.models import Api, Module, Result, dump_of, match

NPU = dump_of((Module("a", "A", (Api("Torch.add"),)), Module("b", "B"), Module("c", "C")))
BENCH = dump_of((Module("z", "Z", (Api("Torch.add"),)), Module("b", "B"), Module("c", "C")))
A, B, C = (f"Module.{name.lower()}.{name}.forward.0" for name in "ABC")
Z = "Module.z.Z.forward.0"
ADD = "Torch.add.0.forward"


def chosen(folder: Path, content: Any, **options: Any) -> Result:
    file = folder / "pairs.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    place = {key: options.pop(key) for key in ("step", "rank") if key in options}
    return match(NPU, BENCH, BuildOptions(match_file=file, **options), **place)


@pytest.mark.parametrize(
    "content", [{"version": 1, "matches": [{"npu": A, "bench": Z}]}, {A: Z}, {Z: A}]
)
@pytest.mark.parametrize("rule", [{}, {"fuzzy_match": True}, {"layer_mapping": True}])
def test_a_chosen_pair_is_matched_and_so_is_what_it_contains(
    tmp_path: Path, content: Any, rule: dict[str, bool]
) -> None:
    result = chosen(tmp_path, content, **rule)
    assert result.pairs() == {A: Z, ADD: ADD, B: B, C: C}
    source = result.matching.source[result.npu.tree.names.index(A)]
    assert source == Source.FILE
    assert not result.diagnostics


@pytest.mark.parametrize("rule", [{}, {"fuzzy_match": True}, {"layer_mapping": True}])
def test_nodes_that_lose_their_partner_say_so(tmp_path: Path, rule: dict[str, bool]) -> None:
    result = chosen(tmp_path, {A: B}, **rule)
    assert result.pairs() == {A: B, C: C}
    assert result.why(B) == ("PARTNER_TAKEN", B, f"matched with {A}")


def test_pairs_of_other_steps_and_ranks_are_left_out(tmp_path: Path) -> None:
    pairs = [{"npu": A, "bench": Z, "step": 1, "rank": 2}]
    content = {"version": 1, "matches": pairs}
    assert A in chosen(tmp_path, content, step=1, rank=2).pairs()
    assert A not in chosen(tmp_path, content, step=1, rank=0).pairs()
    assert A not in chosen(tmp_path, content, step=0, rank=2).pairs()


def test_every_pair_that_cannot_be_applied_is_reported(tmp_path: Path) -> None:
    pairs = [("gone", Z), (A, "gone"), (A, Z), (A, B), (B, Z), ("DefaultModel", C)]
    content = {"version": 1, "matches": [{"npu": i, "bench": j} for i, j in pairs]}
    result = chosen(tmp_path, content)
    assert [(one.subject, one.message.partition(": ")[2]) for one in result.diagnostics] == [
        ("gone", "the debug run has no node of this name."),
        (A, "the reference has no node gone."),
        (A, f"an earlier pair matches this node with {Z}."),
        (B, f"an earlier pair matches {Z} with {A}."),
        ("DefaultModel", f"the root matches the root, not {C}."),
    ]
    assert result.pairs() == {A: Z, ADD: ADD, B: B, C: C}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not valid JSON at line 1"),
        ("[]", "must hold a JSON object"),
        ('{"version": 2, "matches": []}', "'version' must be 1"),
        ('{"version": 1, "matches": {}}', "'matches' must be a list"),
        ('{"version": 1, "matches": [3]}', "matches[0] must be an object"),
        ('{"version": 1, "rejected": {}}', "'rejected' must be a list"),
        ('{"version": 1, "rejected": [{"npu": "a"}]}', "rejected[0] must name a node of each side"),
        ('{"rejected": []}', "'version' must be 1"),
        ('{"version": 1, "matches": [{"npu": "a"}]}', "matches[0] must name a node of each side"),
        ('{"version": 1, "matches": [{"npu": "a", "bench": "b", "step": true}]}', "whole numbers"),
        ('{"version": 1, "matches": [{"npu": "a", "bench": "b", "typo": 1}]}', "matches[0]"),
        ('{"a": 1}', "a must name a node of each side"),
        ("[" * 100_000, "is not valid JSON"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "pairs.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_match_file(file)
    assert str(file) in str(caught.value)
    assert problem in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_match_file(tmp_path / "none.json")
