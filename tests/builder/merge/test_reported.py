"""What is said of a layout stands in the list that the viewer's translations are tested with."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from msprobe_builder.merge.flow.rules import RULES

ROOT = Path(__file__).resolve().parents[3]
REPORTED = json.loads((ROOT / "frontend_polymer/test/i18n/reported.json").read_text("utf-8"))
REASONS = json.loads((ROOT / "frontend_polymer/test/i18n/reasons.json").read_text("utf-8"))


def _is_refusal(node: ast.AST) -> bool:
    """Whether texts below end the build, or say why nothing was found."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id == "end"  # of such a sentence
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        first = node.value.elts[0]
        return isinstance(first, ast.Constant) and first.value is None
    return isinstance(node, ast.Raise)


def _texts(node: ast.AST) -> list[str]:
    """Patterns of the texts below that are reported."""
    if _is_refusal(node):
        return []
    if isinstance(node, ast.Constant):
        return [re.escape(node.value)] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        parts = (
            re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".*"
            for part in node.values
        )
        return ["".join(parts)]
    body = getattr(node, "body", None)
    children = list(ast.iter_child_nodes(node))
    if isinstance(body, list) and body and isinstance(node, ast.FunctionDef | ast.Module):
        documentation = body[0]
        children = [one for one in children if one is not documentation]
    return [text for child in children for text in _texts(child)]


def test_each_reason_of_a_layout_is_in_the_list() -> None:
    tree = ast.parse((ROOT / "msprobe_builder/merge/detect.py").read_text("utf-8"))
    said = 0
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef) or function.name.startswith("_check"):
            continue
        for text in _texts(function):
            pattern = text.replace(r"\{\}", ".*")
            if len(re.findall(r"[A-Za-z]{2,}", pattern)) < 3:
                continue  # a name, a number or a part
            said += 1
            assert any(re.search(pattern, one) for one in REPORTED), pattern
    assert said >= 15


def test_each_rule_behind_a_value_is_in_the_list() -> None:
    said = {rule.reason for rule in RULES} - {""}
    for path in (ROOT / "msprobe_builder/merge").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr="because"), args=args):
                    values = [one.value for one in args if isinstance(one, ast.Constant)]
                    said |= {one for one in values if isinstance(one, str)}
    assert len(said) > 30
    assert said <= {*REASONS}
