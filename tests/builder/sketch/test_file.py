"""Files that nobody of ours wrote: one sentence each, never a traceback."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from msprobe_builder.base.errors import BuildError
from msprobe_builder.command.main import main
from msprobe_builder.sketch.definition import FLAT, NUMBERS
from msprobe_builder.sketch.file import read_sketches
from msprobe_builder.sketch.layout import (
    BLOCK,
    HEAD,
    NAME,
    PLACE,
    PLACES,
    ROWS,
    packed_block,
    packed_head,
    rows_of,
)
from tests.conftest import REPOSITORY

RECORDS = 3


def rows(count: int) -> bytes:
    numbers = np.random.default_rng(count).standard_normal((count, NUMBERS))
    return rows_of(numbers, [0] * count, [0] * count).tobytes()


def places(*entries: tuple[int, int, int, int]) -> bytes:
    return np.array(list(entries), PLACE).tobytes()


GOOD = (
    packed_head()
    + packed_block(ROWS, 0, rows(2))
    + packed_block(PLACES, 0, places((0, 0, 0, 0), (0, 1, 0, 1), (2, 0, 0, 1)))
    + packed_block(ROWS, 2, rows(1))
    + packed_block(PLACES, 3, places((1, 0, 0, 2)))
)


def written(path: Path, content: bytes) -> Path:
    path = path / NAME
    path.write_bytes(content)
    return path


def with_head(**changes: int) -> bytes:
    names = ("magic", "version", "row", "numbers", "place", "check")
    fields = dict(zip(names, HEAD.unpack_from(GOOD), strict=True)) | changes
    head = HEAD.pack(*fields.values())[:-4]
    return head + struct.pack("<I", zlib.crc32(head)) + GOOD[HEAD.size :]


def unknown_block() -> bytes:
    head = BLOCK.pack(int.from_bytes(b"WHAT", "little"), 0, 0, 0, 0)[:-4]
    return head + struct.pack("<I", zlib.crc32(head))


HOSTILE: dict[str, tuple[bytes, str]] = {
    "another file": (b"PK\3\4" + GOOD[4:], "does not begin as such a file does"),
    "a flipped head": (GOOD[:10] + b"\1" + GOOD[11:], "checksum of its head"),
    "a later version": (with_head(version=2), "has version 2 of its format"),
    "other rows": (with_head(row=8), "rows have 8 bytes"),
    "a flipped block": (GOOD[: HEAD.size + 5] + b"\7" + GOOD[HEAD.size + 6 :], "of the block at"),
    "a flipped number": (GOOD[:100] + bytes([GOOD[100] ^ 1]) + GOOD[101:], "of the 2 entries at"),
    "an unknown kind": (packed_head() + unknown_block(), "of the unknown kind b'WHAT'"),
    "a missing block": (packed_head() + packed_block(ROWS, 2, rows(1)), "begins at 2 where 0"),
    "a row that is not there": (
        packed_head() + packed_block(PLACES, 0, places((0, 0, 0, 0))),
        "names row 0 of 0",
    ),
    "a record that is not there": (
        packed_head()
        + packed_block(ROWS, 0, rows(1))
        + packed_block(PLACES, 0, places((RECORDS, 0, 0, 0))),
        f"names record {RECORDS} of {RECORDS}",
    ),
}


def test_a_file_is_read_across_its_blocks(tmp_path: Path) -> None:
    sketches = read_sketches(written(tmp_path, GOOD), RECORDS)
    assert sketches is not None
    assert sketches.places["row"].tolist() == [0, 1, 1, 2]
    assert sketches.rows(np.array([2, 0, 1])).tobytes() == rows(1) + rows(2)
    assert read_sketches(tmp_path / "elsewhere" / NAME, RECORDS) is None


@pytest.mark.parametrize("case", HOSTILE)
def test_a_damaged_file_is_told_in_one_sentence(case: str, tmp_path: Path) -> None:
    content, message = HOSTILE[case]
    path = written(tmp_path, content)
    with pytest.raises(BuildError) as caught:
        read_sketches(path, RECORDS)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert message in text
    assert text.endswith("compare without sketches.")


def test_any_changed_byte_is_noticed_or_changes_nothing(tmp_path: Path) -> None:
    whole = read_sketches(written(tmp_path, GOOD), RECORDS)
    assert whole is not None
    everything = np.arange(3)
    for place in range(len(GOOD)):
        changed = bytes([*GOOD[:place], GOOD[place] ^ 0x40, *GOOD[place + 1 :]])
        try:
            found = read_sketches(written(tmp_path, changed), RECORDS)
        except BuildError:
            continue
        assert found is not None
        assert np.array_equal(found.places, whole.places)
        assert found.rows(everything).tobytes() == whole.rows(everything).tobytes()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_of_that_name_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    with pytest.raises(BuildError, match="no regular file"):
        read_sketches(tmp_path / NAME, RECORDS)


def test_the_writer_of_the_examples_writes_what_is_read(tmp_path: Path) -> None:
    """It packs the file by docs/design/format.md, without our layout."""
    program = REPOSITORY / "examples" / "write_dump.py"
    for name in ("npu", "bench"):
        subprocess.run([sys.executable, program, tmp_path / name], check=True)
    folder = tmp_path / "npu" / "step0" / "rank"
    data = json.loads((folder / "dump.json").read_text())["data"]
    sketches = read_sketches(folder / NAME, len(data))
    assert sketches is not None
    assert sketches.places.tolist() == [
        *((0, section, 0, section) for section in range(3)),
        (1, 0, 0, 1),  # what the first layer put out
        *((1, section, 0, section + 2) for section in (1, 2)),
    ]
    norms = [one["Norm"] for one in data["Module.layers.1.Dense.forward.0"]["output"]]
    numbers = sketches.rows(np.array([3]))["numbers"][0, :FLAT]
    assert 0.6 < np.linalg.norm(numbers) / norms[0] < 1.6
    request = {"npu_path": str(tmp_path / "npu"), "bench_path": str(tmp_path / "bench")}
    (tmp_path / "compare.json").write_text(json.dumps(request))
    assert main(["-i", str(tmp_path / "compare.json"), "-o", str(tmp_path / "out")]) == 0


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells")
def test_what_was_read_is_no_memory_of_the_process(tmp_path: Path) -> None:
    content = packed_head() + packed_block(ROWS, 0, rows(20_000))
    path = written(tmp_path, content)
    sketches = read_sketches(path, RECORDS)
    assert sketches is not None
    assert resident(path) < len(content) / 10
    assert len(sketches.rows(np.arange(20_000))) == 20_000
    assert resident(path) < len(content) / 10


def resident(path: Path) -> int:
    """Bytes of a mapped file that this process holds."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.endswith(str(path)))
    size = next(line for line in lines[first:] if line.startswith("Rss:"))
    return int(size.split()[1]) * 1024
