"""Options of a build that contradict each other."""

from __future__ import annotations

import argparse

from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.kinds import KINDS


def refuse_contradictions(options: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    if not options.folders and options.input_path is None:
        raise UsageError(
            "Give the folders of two dumps, or of one: msprobe-build A B -o out; --help tells more."
        )
    if options.folders and options.input_path is not None:
        raise UsageError("Give either folders of dumps or a compare.json with -i, not both.")
    if options.open and (options.quiet or options.json):
        raise UsageError("--open prints an address; leave --quiet and --json out.")
    if options.append is not None and options.output_path is not None:
        raise UsageError("--append replaces the file it is given; leave -o out.")
    if options.append is not None and options.output_name is not None:
        raise UsageError("--append keeps the name of its file; leave --output-name out.")
    if (options.output_path, options.append, options.export_merged) == (None, None, None):
        raise UsageError("-o/--output-path is required: the directory of the result.")
    if options.scheduler is not None and options.workers is not None:
        raise UsageError("--workers counts processes here; with --scheduler leave it out.")
    unknown = sorted(set(options.without) - set(KINDS))
    if unknown:
        raise UsageError(f"--without knows no {unknown[0]}; it is one of {', '.join(KINDS)}.")
    if options.without and not options.verdict:
        raise UsageError("--without is about the verdict; leave --no-verdict out.")
