"""The reference of commands and of Python is that of the source."""

from __future__ import annotations

import importlib.util
import re

import msprobe_builder
from tests.conftest import REPOSITORY


def test_the_reference_is_that_of_the_source() -> None:
    """Write it again with scripts/reference.py."""
    path = REPOSITORY / "scripts" / "reference.py"
    spec = importlib.util.spec_from_file_location("reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = module.page()
    assert module.PAGE.read_text(encoding="utf-8") == page
    for name in set(msprobe_builder.__all__) - {"__version__"}:
        assert f"| `{name}" in page
    declared = (REPOSITORY / "setup.cfg").read_text(encoding="utf-8")
    programs = re.findall(r"^    (msprobe-\w+) = ", declared, re.MULTILINE)
    assert len(programs) > 3
    for program in programs:
        assert f"### `{program}`" in page
