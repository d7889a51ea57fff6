"""``msprobe-build verdict``: who is to blame, for people, scripts and continuous integration."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.command.frame import EXIT_OK
from msprobe_builder.command.output import print_lines

if TYPE_CHECKING:
    from msprobe_builder.database.read.verdict import Verdict
    from msprobe_builder.facts.fact import Fact

EXIT_SUSPECT = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verdict."""
    parser.description = (
        "Say which call of a compared run is wrong first, how sure that is, and what to record\n"
        "next. docs/verdict.md explains how it is found and what the JSON holds."
    )
    parser.epilog = "exit status:\n  4  there is a strong suspect, with --fail-on-suspect"
    parser.add_argument("database", metavar="FILE.vis.db", type=Path)
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.add_argument(
        "--next-config",
        metavar="FILE",
        type=Path,
        help="write what to record next as FILE, a configuration of the collector",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="add what was weighed: kinds of clues, explanations, and on how many each decided",
    )
    parser.add_argument(
        "--fail-on-suspect",
        action="store_true",
        help="end with status 4 when there is a strong suspect",
    )


def run(options: argparse.Namespace) -> int:
    """Print the verdict."""
    import json

    from msprobe_builder.database.read.configuration import read_configuration
    from msprobe_builder.database.read.meta import read_meta, read_side_names
    from msprobe_builder.database.read.verdict import read_verdict
    from msprobe_builder.database.read.weighed import read_weighed
    from msprobe_builder.database.whole import opened_whole
    from msprobe_builder.export.verdict import verdict_json, why_unjudged
    from msprobe_builder.export.weighed import weighed_json, weighed_lines
    from msprobe_builder.facts.wording import calling

    with opened_whole(options.database) as connection:
        names = read_side_names(connection)
        verdict = read_verdict(connection)
        configuration = read_configuration(connection)
        unjudged = why_unjudged(read_meta(connection))
        weighed = read_weighed(connection) if options.explain else None
    if options.json:
        with calling(names):
            told = verdict_json(verdict, configuration, unjudged)
        if weighed is not None:
            told["weighed"] = weighed_json(weighed)
        print_lines(json.dumps(told, indent=2).splitlines())
    else:
        print_lines(judged_lines(options.database) or _nothing_lines(unjudged))
        print_lines([] if weighed is None else weighed_lines(weighed))
    if options.next_config is not None:
        _write_next(verdict, options.next_config)
    is_strong = verdict is not None and any(one.strength == "strong" for one in verdict.suspects)
    return EXIT_SUSPECT if options.fail_on_suspect and is_strong else EXIT_OK


def judged_lines(database: Path) -> list[str]:
    """What the configurations differ in, and the verdict; nothing where nothing was compared."""
    from msprobe_builder.database.read.configuration import read_configuration
    from msprobe_builder.database.read.meta import read_side_names
    from msprobe_builder.database.read.stacks import read_code
    from msprobe_builder.database.read.verdict import read_verdict
    from msprobe_builder.database.whole import opened_whole
    from msprobe_builder.export.configuration import configuration_lines
    from msprobe_builder.export.verdict import verdict_lines
    from msprobe_builder.facts.wording import calling

    with opened_whole(database) as connection, calling(read_side_names(connection)):
        lines = configuration_lines(read_configuration(connection))
        verdict = read_verdict(connection)
        if verdict is None:
            return lines
        code = ""
        if verdict.suspects:
            first = verdict.suspects[0]
            code = read_code(connection, first.node_id, first.source)
        return [*lines, *verdict_lines(verdict, database, code)]


def _nothing_lines(unjudged: Fact) -> list[str]:
    from msprobe_builder.export.wrapped import wrapped
    from msprobe_builder.facts.fact import fact

    undecided = fact("card.conclusion", conclusion=fact("conclusion.undecided"), sides=None)
    return wrapped(fact("label.verdict"), [undecided, unjudged])


def _write_next(verdict: Verdict | None, file: Path) -> None:
    import json

    from msprobe_builder.base.publish import written

    proposal = None if verdict is None else verdict.next_dump
    if proposal is None:
        raise BuildError(f"There is nothing to record next, so {file} was not written.")
    if os.path.lexists(file):
        raise UsageError(f"{file} exists already; give --next-config another name.")
    with written(file, overwrite=False) as stream:
        stream.write(f"{json.dumps(proposal['config'], indent=2)}\n".encode())
