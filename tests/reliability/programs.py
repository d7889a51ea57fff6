"""What is killed: programs that tell how far they are, so that a reader may kill them there."""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

from msprobe_builder import BuildConfig, build
from tests.plugin.changing import change, operation, report
from tests.plugin.conftest import client_of, node


def build_and_tell(told: Connection, npu: Path, bench: Path, out: Path) -> None:
    """Build a comparison; a dot for every 5,000 calls and returns of Python, "!" at its end."""
    count = 0

    def trace(_frame: FrameType, _event: str, _argument: object) -> None:
        nonlocal count
        count += 1
        if count % 5000 == 0:
            os.write(told.fileno(), b".")

    sys.setprofile(trace)
    build(BuildConfig(npu, bench), out, name="x", workers=1)
    sys.setprofile(None)
    os.write(told.fileno(), b"!")


def unmatch_and_tell(told: Connection, path: Path, first: int) -> None:
    """Unmatch all pairs from a node on: a dot before each, its name once that was answered."""
    ask = client_of(path.parent)
    for index in range(first, 600):
        detail = node(ask, file=path.name, index=index)
        if detail.HasField("bench"):
            os.write(told.fileno(), b".")
            report(change(ask, path.name, operation(index, detail.bench.index, "UNMATCH")))
            os.write(told.fileno(), detail.npu.name.encode() + b"\n")
