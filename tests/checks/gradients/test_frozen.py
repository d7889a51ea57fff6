"""Parameters of which one record has no gradient are named before what follows from that."""

from __future__ import annotations

from pathlib import Path

from msprobe_checks.gradients.similarity import compare_gradients
from msprobe_checks.gradients.write import summary_lines

HEAD = "param_name,max,min,norm,shape\n"


def record(folder: Path, *names: str) -> Path:
    """Two steps of gradients that all have one norm."""
    (folder / "rank0").mkdir(parents=True)
    for step in range(2):
        rows = "".join(f'{name},1.0,-1.0,{2.0 + step},"[4]"\n' for name in names)
        (folder / "rank0" / f"grad_summary_{step}.csv").write_text(HEAD + rows)
    return folder


def verdict(first: Path, second: Path) -> str:
    [said] = [x for x in summary_lines(compare_gradients(first, second)) if x.startswith("Verdict")]
    return said


def test_parameters_without_gradients_in_one_run_are_named(tmp_path: Path) -> None:
    whole = record(tmp_path / "whole", "a", "b", "c", "d")
    frozen = record(tmp_path / "frozen", "a", "d")
    said = "has no gradients of b and 1 more parameter on rank 0: look at what is frozen"
    assert f"the first {said}" in verdict(frozen, whole)
    assert f"the second {said}" in verdict(whole, frozen)
    assert "has no gradients" not in verdict(whole, whole)


def test_other_names_are_not_taken_for_frozen(tmp_path: Path) -> None:
    first, second = record(tmp_path / "first", "a", "b"), record(tmp_path / "second", "a", "z")
    assert "has no gradients" not in verdict(first, second)
