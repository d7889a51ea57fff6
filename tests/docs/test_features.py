"""The table of features is made of its source, and every row has a guide and a test."""

from __future__ import annotations

import ast
import importlib.util
from types import ModuleType

import pytest

from tests.conftest import REPOSITORY


def load() -> ModuleType:
    path = REPOSITORY / "scripts" / "features.py"
    spec = importlib.util.spec_from_file_location("features", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ROWS = load().rows()


def test_the_table_is_that_of_its_source() -> None:
    """Write it again with scripts/features.py."""
    assert (REPOSITORY / "docs" / "design" / "features.md").read_text(
        encoding="utf-8"
    ) == load().page()


@pytest.mark.parametrize("row", ROWS, ids=[row["feature"] for row in ROWS])
def test_a_feature_has_a_guide_and_a_test(row: dict[str, str]) -> None:
    assert (REPOSITORY / "docs" / row["guide"]).is_file()
    assert row["here"]
    path, _, name = row["test"].partition("::")
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    assert name in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
    assert None not in row.values()
