"""Whole files are read in as much memory as they need."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from msprobe_builder.base.limits import LARGEST_JSON, MIB
from msprobe_builder.files.regular import UnreadableFileError, read_bytes


def test_a_small_file_takes_little_memory_whatever_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "construct.json"
    path.write_bytes(b"{}")
    tracemalloc.start()
    try:
        assert read_bytes(path, LARGEST_JSON) == b"{}"
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_bytes(b" " * (2 * MIB + 1))
    assert len(read_bytes(path, 2 * MIB + 1)) == 2 * MIB + 1
    with pytest.raises(UnreadableFileError, match="larger than 2 MiB"):
        read_bytes(path, 2 * MIB)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_is_said_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, word in ((pipe, "no regular file"), (tmp_path, "directory")):
        with pytest.raises(UnreadableFileError, match=word):
            read_bytes(path, MIB)
