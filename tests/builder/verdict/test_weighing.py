"""What a verdict weighs can be listed, and left out: then something else is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder.base.kinds import CLUES, KINDS
from msprobe_builder.export.weighed import MEANINGS
from msprobe_builder.verdict.findings import Cause
from tests.builder.running import run_here
from tests.recorded.case import FOLDER, read_case
from tests.recorded.judge import database_of
from tests.recorded.test_recorded import unpacked

# By kind a recorded case on which it decides.
CASES = {
    "argument": "transformers/attn_scale",
    "gradient": "modules_alone/a_frozen_weight_is_named_before_what_lacks_its_gradient",
    "mispaired": "reordered_slices/slices_that_look_alike_are_no_other_arguments",
    "formula": "masks/a_mask_of_truth_values_beside_one_of_numbers_accuses_nobody-true",
    "inside": "split_programs/a_correct_program_is_clean-own_count_cp2_found",
    "no_gradient": "equivalent_formulas/a_function_of_ones_own_cuts_nothing_off",
    "split": "split_programs/a_correct_program_is_clean-gshard_ep2_found",
    "passes": "partial_dumps/a_run_that_ended_early_lacks_no_call",
    "unknown": "partial_dumps/of_the_backward_pass_alone_nobody_is_accused_of_other_data",
    "places": "one_sided_calls/behind_calls_that_nobody_recorded_order_makes_no_module_certain",
}


def verdict_of(name: str, folder: Path, *options: str) -> dict[str, Any]:
    """The verdict as JSON, with what was weighed by kind."""
    case = read_case(FOLDER / f"{name}.yaml")
    case = replace(case, options=(*case.options, *options))
    dumps = None if case.archive is None else unpacked(case.archive)
    folder.mkdir()
    file = database_of(case, dumps, folder)
    answer = run_here(["verdict", str(file), "--explain", "--json"])
    assert answer.returncode == 0, answer.stderr
    verdict: dict[str, Any] = json.loads(answer.stdout)
    verdict["weighed"] = {one["kind"]: one for one in verdict["weighed"]}
    verdict["text"] = run_here(["verdict", str(file), "--explain"]).stdout
    return verdict


@pytest.mark.parametrize("kind", CASES)
def test_without_a_kind_that_decides_another_verdict_is_told(kind: str, tmp_path: Path) -> None:
    before = verdict_of(CASES[kind], tmp_path / "with")
    after = verdict_of(CASES[kind], tmp_path / "without", "--without", kind)
    assert before["weighed"][kind]["decided"] >= 1
    first = before["weighed"][kind]["first"]
    assert first in before["text"]
    assert kind not in after["weighed"]
    assert "without" in {one["code"] for one in after["facts"]}
    suspects = [
        [(one["node"], one["cause"]) for one in told["suspects"]] for told in (before, after)
    ]
    strong = [[one["strength"] for one in told["suspects"][:1]] for told in (before, after)]
    assert (suspects[0], strong[0]) != (suspects[1], strong[1])
    assert kind not in {cause for _, cause in suspects[1]}


def test_what_was_not_looked_for_is_not_clean(dumps: Path, tmp_path: Path) -> None:
    folders = [str(dumps / f"llama_statistics{one}") for one in ("_renamed_all", "")]
    for left_out, conclusion in (("formula", "clean"), ("weight", "undecided")):
        name = f"{left_out}.vis.db"
        options = ["-o", str(tmp_path), "--without", left_out, "--output-name", name]
        assert run_here([*folders, *options]).returncode == 0
        told = json.loads(run_here(["verdict", str(tmp_path / name), "--json"]).stdout)
        assert (told["conclusion"], told["suspects"]) == (conclusion, [])
        assert "without" in {one["code"] for one in told["facts"]}


def test_the_first_suspect_is_of_the_kind_that_decided(tmp_path: Path) -> None:
    told = verdict_of(CASES["argument"], tmp_path / "told")
    [decided] = [kind for kind, one in told["weighed"].items() if one["decided"]]
    assert decided == told["suspects"][0]["cause"]
    assert told["weighed"][decided]["first"] == told["suspects"][0]["node"]


def test_each_kind_is_a_cause_or_an_explanation_and_has_a_meaning() -> None:
    assert list(CLUES) == [cause.name.lower() for cause in Cause]
    assert list(MEANINGS) == list(KINDS)


def test_without_a_verdict_nobody_is_accused(dumps: Path, tmp_path: Path) -> None:
    folders = [str(dumps / f"llama_statistics{one}") for one in ("_wrong_attention_scale", "")]
    build = ["-o", str(tmp_path), "--no-verdict", "--output-name", "one.vis.db"]
    built = run_here([*folders, *build])
    assert built.returncode == 0, built.stderr
    assert "Verdict" not in built.stdout
    file = str(tmp_path / "one.vis.db")
    told = json.loads(run_here(["verdict", file, "--json"]).stdout)
    assert (told["suspects"], [one["code"] for one in told["facts"]]) == (
        [],
        ["cannot_tell.unwanted"],
    )
    assert "--no-verdict" in run_here(["verdict", file]).stdout
    assert run_here(["verify", file]).returncode == 0


def test_what_contradicts_itself_is_refused(dumps: Path, tmp_path: Path) -> None:
    folders = [str(dumps / f"llama_statistics{one}") for one in ("_bf16", "")]
    unknown = run_here([*folders, "-o", str(tmp_path), "--without", "weihgt"])
    assert unknown.returncode == 2
    assert "weihgt" in unknown.stderr
    assert "weight" in unknown.stderr
    both = run_here([*folders, "-o", str(tmp_path), "--without", "weight", "--no-verdict"])
    assert both.returncode == 2
    assert "--no-verdict" in both.stderr
