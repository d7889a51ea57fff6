"""``msprobe-build alias``: the name ``msprobe`` for this program, for scripts that call it so."""

from __future__ import annotations

import argparse
import sys
import sysconfig
from pathlib import Path

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.publish import published
from msprobe_builder.command.frame import EXIT_OK
from msprobe_builder.command.output import print_lines
from msprobe_builder.export.wrapped import line
from msprobe_builder.facts.fact import fact
from msprobe_builder.files.regular import read_start

_NAME = "msprobe"
_MARK = "# Made by 'msprobe-build alias'."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.description = (
        "Make a program 'msprobe' beside msprobe-build that does what msprobe-build does, so that\n"
        "scripts written for msprobe run as they stand. One that is there already is left alone."
    )
    parser.add_argument(
        "--folder", metavar="DIR", type=Path, help="make it there; that of msprobe-build by default"
    )
    parser.add_argument("--remove", action="store_true", help="take it away again")


def run(options: argparse.Namespace) -> int:
    """Make it, or take it away; BuildError where another program has the name."""
    path = (options.folder or Path(sysconfig.get_path("scripts"))) / _NAME
    if path.exists() and _MARK.encode() not in read_start(path, 300)[0]:
        raise BuildError(f"{path} is another program; uninstall mindstudio-probe first.")
    if options.remove:
        path.unlink(missing_ok=True)
        print_lines([line(fact("label.removed"), str(path))])
        return EXIT_OK
    text = (
        f"#!{sys.executable}\n{_MARK}\nimport sys\n\n"
        "from msprobe_builder.command.main import main\n\nsys.exit(main())\n"
    )
    with published(path, overwrite=True) as temporary:
        temporary.write_text(text)
        temporary.chmod(0o755)  # before it has its name
    print_lines([line(fact("label.written"), str(path))])
    return EXIT_OK
