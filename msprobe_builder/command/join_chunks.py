"""``msprobe-build join-chunks``: a prompt that a server took in chunks, as one forward pass."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from msprobe_builder.base.errors import BuildError
from msprobe_builder.command.frame import EXIT_OK
from msprobe_builder.command.output import print_lines
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import tell

_FILES = ("dump.json", "construct.json", "stack.json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the joining."""
    parser.description = (
        "Write a dump in which the forward passes of a prompt that a server took in chunks are\n"
        "one, to be compared with the forward pass of a training."
    )
    parser.add_argument("dump", metavar="DIR", type=Path, help="folder of a rank: step0/rank")
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, required=True, help="folder to write"
    )


def run(options: argparse.Namespace) -> int:
    """Write the dump."""
    from msprobe_builder.base.publish import written_together
    from msprobe_builder.dump.chunks import join_chunks
    from msprobe_builder.dump.construct import read_construct
    from msprobe_builder.dump.json_stream import DumpReader
    from msprobe_builder.dump.read import load_json

    dump, construct, stack = (options.dump / name for name in _FILES)
    reader = DumpReader(dump)
    data = dict(reader)
    parent = read_construct(load_json(construct, []), construct).parent
    joined = join_chunks(data, parent, options.dump)
    stacks = load_json(stack, []) if stack.exists() else {}
    contents = (reader.header | {"data": joined.data}, joined.parent, stacks)
    if options.output.exists():
        raise BuildError(f"{options.output} is there; choose another folder for the joined dump.")
    with written_together(options.output) as folder:
        for name, content in zip(_FILES, contents, strict=True):
            (folder / name).write_text(json.dumps(content), encoding="utf-8")
    said = fact(
        "chunks.joined",
        passes=len(joined.words),
        words=sum(joined.words),
        calls=len(joined.data),
        folder=str(options.output),
        left=fact("chunks.left_out", calls=joined.left_out) if joined.left_out else None,
    )
    print_lines([tell(said)])
    return EXIT_OK
