"""``msprobe-build checkpoint``: two checkpoints of one model, however they are split."""

from __future__ import annotations

import argparse
from pathlib import Path

from msprobe_builder.command.frame import EXIT_OK
from msprobe_builder.command.output import print_lines
from msprobe_builder.export.wrapped import line
from msprobe_builder.facts.fact import fact


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the comparison."""
    parser.description = (
        "Compare the parameters of two checkpoints: Megatron-LM or MindSpeed of any split,\n"
        "torch.save, safetensors, Hugging Face, torch.distributed.checkpoint."
    )
    parser.add_argument("first", metavar="A", type=Path, help="file or directory under test")
    parser.add_argument("second", metavar="B", type=Path, help="file or directory of the reference")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE.json",
        type=Path,
        default=Path("ckpt_similarity.json"),
        help="the result; must not exist (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Compare, write the result and print what differs first."""
    import json
    import os

    from msprobe_builder.base.errors import UsageError
    from msprobe_builder.base.publish import written
    from msprobe_checks.checkpoint.compare import compare
    from msprobe_checks.checkpoint.locate import read_checkpoint
    from msprobe_checks.checkpoint.report import similarity_json, summary_lines

    if os.path.lexists(options.output):
        raise UsageError(f"{options.output} exists already; remove it or choose another with -o.")
    comparison = compare(read_checkpoint(options.first), read_checkpoint(options.second))
    with written(options.output) as stream:
        stream.write(json.dumps(similarity_json(comparison), indent=1).encode("utf-8"))
    print_lines([*summary_lines(comparison), line(fact("label.written"), str(options.output))])
    return EXIT_OK
