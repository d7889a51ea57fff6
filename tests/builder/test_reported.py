"""What a build notes stands in the list that the viewer's translations are tested with."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPORTED = json.loads((ROOT / "frontend_polymer/test/i18n/reported.json").read_text("utf-8"))
# What is said of a user's own rules and matches, and of ranks that failed, quotes errors.
QUOTING = {"mapping_report.py", "match_file.py", "run.py", "merged_export.py"}


def _patterns(node: ast.AST, names: Mapping[str, ast.AST]) -> Iterator[str]:
    """Patterns of the sentences that an expression may come to."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield re.escape(node.value)
    elif isinstance(node, ast.JoinedStr):
        parts = (
            re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".*"
            for part in node.values
        )
        yield "".join(parts)
    elif isinstance(node, ast.Name) and node.id in names:
        yield from _patterns(names[node.id], {})
    elif isinstance(node, ast.Subscript):
        yield from _patterns(node.value, names)
    elif isinstance(node, ast.Dict):
        for value in node.values:
            yield from _patterns(value, names)


def _said(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text("utf-8"))
    for body in (one for one in ast.walk(tree) if isinstance(one, ast.Module | ast.FunctionDef)):
        names = {
            target.id: node.value
            for scope in (tree, body)
            for node in ast.walk(scope)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(body) if isinstance(body, ast.FunctionDef) else ():
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            place = {"about": 3, "Diagnostic": 2}.get(node.func.id)
            if place is not None and len(node.args) > place:
                yield from _patterns(node.args[place], names)


def test_each_note_of_a_build_is_in_the_list() -> None:
    said = {
        pattern
        for path in sorted((ROOT / "msprobe_builder").rglob("*.py"))
        if path.name not in QUOTING
        for pattern in _said(path)
    }
    assert len(said) > 25
    for pattern in said:
        assert any(re.fullmatch(pattern, one) for one in REPORTED), pattern
