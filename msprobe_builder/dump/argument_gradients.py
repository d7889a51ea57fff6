"""Gradients by argument, where a dump has them beside what the last autograd node handled.

The established keys of a backward record, ``input`` and ``output``, hold what one node received
and sent, in its own order. The collector of this package adds the gradient of each tensor that
the call returned and was given where they differ. Those tell more, but only two dumps that both
have them can be compared by them; their head says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msprobe_builder.dump.source import Source
from msprobe_builder.files.regular import open_regular

ARGUMENT_GRADIENTS = "argument_gradients"  # in the head of dumps that have them
_INSTEAD = (("input", "output_gradients"), ("output", "input_gradients"))
_HEAD_BYTES = 4096
_MARK = re.compile(rb'"' + ARGUMENT_GRADIENTS.encode() + rb'"\s*:\s*true')


def has_argument_gradients(source: Source) -> bool:
    """Whether the head of dump.json says so; False for what cannot be read, which reading tells."""
    if not isinstance(source, Path):
        content: Any = source.dump  # from a caller, so it may be anything
        if not isinstance(content, Mapping):
            return False
        return content.get(ARGUMENT_GRADIENTS) is True
    try:
        with os.fdopen(open_regular(source / "dump.json"), "rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return _MARK.search(head.partition(b'"data"')[0]) is not None


def by_argument(record: dict[str, Any]) -> dict[str, Any]:
    """The record with the gradients by argument in place of the established ones."""
    found = {key: record[own] for key, own in _INSTEAD if own in record}
    return {**record, **found} if found else record
