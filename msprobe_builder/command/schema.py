"""``msprobe-build schema``: what can be asked of a file in SQL."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe_builder.command.frame import EXIT_OK
from msprobe_builder.command.output import print_lines
from msprobe_builder.command.query import SECONDS
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import tell

if TYPE_CHECKING:
    from msprobe_builder.database.query import Described

_WIDTH, _INDENT = 100, "    "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the schema."""
    parser.description = (
        "Print views, tables and columns of a .vis.db, for msprobe-build query. Views stay as\n"
        "they are from version to version. docs/design/database.md says what each column means."
    )
    parser.add_argument("database", metavar="FILE.vis.db", type=Path)


def run(options: argparse.Namespace) -> int:
    """Print the schema."""
    from msprobe_builder.database.query import described

    print_lines(_lines(described(options.database, SECONDS)))
    return EXIT_OK


def _lines(found: list[Described]) -> Iterator[str]:
    for one in found:
        if one.rows is None:
            yield tell(fact("schema.view", name=one.name))
        else:
            yield tell(fact("schema.table", name=one.name, rows=one.rows))
        columns = [column.replace(" ", "\N{NO-BREAK SPACE}") for column in one.columns]
        for line in textwrap.wrap(
            ", ".join(columns), _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT
        ):
            yield line.replace("\N{NO-BREAK SPACE}", " ")
