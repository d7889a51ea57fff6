"""What the verdict can say stands in the list that the viewer's translations are tested with."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def _pattern(text: ast.expr) -> str:
    """A regular expression with a place for each value that is put in."""
    if isinstance(text, ast.Constant):
        return re.escape(text.value) if isinstance(text.value, str) else ""
    assert isinstance(text, ast.JoinedStr)
    return "".join(
        re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".*"
        for part in text.values
    )


WHY = (
    "msprobe_builder/metrics/tensor_file.py",
    "msprobe_builder/metrics/joined.py",
    "msprobe_builder/merge/values/combine.py",
    "msprobe_builder/merge/values/tensor_parallel.py",
    "msprobe_builder/merge/join/tied.py",
)


def _reasons(path: Path) -> Iterator[str]:
    """Why tensors are not compared: what such errors are told, and constants of merges."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "TensorFileError":
            yield from (_pattern(one) for one in node.args[1:] if isinstance(one, _TEXT))
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in _CONSTANTS:
            values = node.value.values if isinstance(node.value, ast.Dict) else [node.value]
            yield from (_pattern(one) for one in values if isinstance(one, _TEXT))


_TEXT = (ast.Constant, ast.JoinedStr)
_CONSTANTS = ("reason", "_DEPENDS", "_REASONS", "_NO_CHECKSUM", "_PART", "_WHY")


def test_the_reasons_why_tensors_are_not_compared_are_in_the_list() -> None:
    listed = json.loads((ROOT / "frontend_polymer/test/i18n/noted-why.json").read_text("utf-8"))
    patterns = [one for path in WHY for one in _reasons(ROOT / path)]
    patterns = [one for one in patterns if len(re.findall(r"[a-z]{2,}", one)) >= 3]
    assert len(patterns) > 15
    for pattern in patterns:
        assert any(re.search(f", {pattern}$", note) for note in listed), pattern


def test_the_notes_beside_pairs_of_tensors_are_in_the_list() -> None:
    notes = {
        node.value.value
        for name in ("measure", "tensor")
        for node in ast.parse((ROOT / f"msprobe_builder/metrics/{name}.py").read_text("utf-8")).body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and re.match(r"[a-z]+: ", str(node.value.value))
    }
    listed = (ROOT / "frontend_polymer/test/i18n/noted.json").read_text("utf-8")
    assert notes == set(json.loads(listed))
