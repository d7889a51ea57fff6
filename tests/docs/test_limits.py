"""Every bound is documented, by its name, and none that is not there any more."""

from __future__ import annotations

import re

from msprobe_builder.base import limits as of_builds
from tb_graph_ascend import limits as of_the_viewer
from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "design" / "reliability.md"


def test_the_page_names_each_bound_once() -> None:
    table = PAGE.read_text("utf-8").partition("## Bounds")[2].partition("\n## ")[0]
    named = re.findall(r"`([A-Z][A-Z_]+)`", table)
    there = {name for one in (of_builds, of_the_viewer) for name in vars(one) if name.isupper()}
    assert sorted(named) == sorted(there - {"MIB"})
