"""Reads ``flow.bin``, which is hostile until checked; ``flow_layout.py`` says what it holds."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.errors import BuildError
from msprobe_builder.dump.flow_layout import (
    BLOCK,
    CHECK,
    HEAD,
    KINDS,
    LENGTH,
    MAGIC,
    MAKER,
    MAKERS,
    NAME,
    NAMES,
    NONE,
    PROVISIONAL,
    RECORDS,
    ROW,
    ROWS,
    VERSION,
    Maker,
    Mark,
    Place,
)
from msprobe_builder.files.mapped import mapped

_BY_NAME = (Maker.PARAMETER, Maker.BUFFER, Maker.GRADIENT, Maker.UNRECORDED)
_ALL_MARKS = sum(Mark)
_MOST_POSITIONS = 1 << 31


@dataclass(frozen=True)
class RecordedFlow:
    """Who made the tensors of a dump.

    ``rows`` and ``makers`` are structured arrays of ROW and MAKER; ``maker`` in them is a number
    of a record of dump.json where ``kind`` is Maker.RECORD, else an index of ``names`` or NONE.
    """

    names: list[str]
    makers: NDArray[Any]
    rows: NDArray[Any]


class _Block(NamedTuple):
    kind: int
    flags: int
    entries: NDArray[Any]
    texts: list[str]


def flow_path(directory: Path) -> Path:
    """Where the flow of a rank's dump lies."""
    return directory / NAME


def read_flow(path: Path, records: Collection[str]) -> RecordedFlow | None:
    """The flow beside a dump.json with these records in their order; None without a file.

    BuildError when it is damaged or of another dump. What the end of the file cuts off is what a
    killed run leaves; it is left out, and so are rows of records that dump.json lacks then.
    """
    content = mapped(path)
    if content is None:
        return None
    parts: dict[int, list[NDArray[Any]]] = {kind: [] for kind in KINDS}
    names: list[str] = []
    lasting = 0
    for block in _blocks(path, content):
        parts[block.kind].append(block.entries)
        names += block.texts
        if block.kind == RECORDS and not block.flags & PROVISIONAL:
            lasting += len(block.entries)
    makers, rows = _joined(parts[MAKERS], MAKER), _joined(parts[ROWS], ROW)
    checks = _joined(parts[RECORDS], CHECK)
    known = _matching(path, checks, lasting, records)
    _check_makers(path, makers, len(checks), len(names))
    _check_rows(path, rows, makers, len(checks), len(names))
    if known < len(checks):
        made_here = (makers["kind"] != Maker.RECORD) | (makers["maker"] < known)
        lost = np.r_[0, np.cumsum(~made_here)]
        first = np.where(rows["count"] > 0, rows["more"], 0).astype(np.int64)
        is_kept = (rows["record"] < known) & (lost[first + rows["count"]] == lost[first])
        is_kept &= (rows["kind"] != Maker.RECORD) | (rows["maker"] < known)
        rows = rows[is_kept]
    return RecordedFlow(names, makers, rows)


def _joined(parts: list[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _matching(path: Path, checks: NDArray[Any], lasting: int, records: Collection[str]) -> int:
    """How many of the first records are the same here and in dump.json."""
    names = "\n".join(records).encode("utf-8", "replace").split(b"\n")  # at once, in half the time
    if len(names) != len(records):  # one has several lines
        names = [name.encode("utf-8", "replace") for name in records]
    there = np.fromiter(map(crc32, names), CHECK, len(names))
    both = min(len(there), len(checks))
    differing = np.flatnonzero(there[:both] != checks[:both])
    same = int(differing[0]) if len(differing) else both
    if same < min(both, lasting):
        raise BuildError(
            f"{path} is of another dump: record {same} of dump.json has another name there; "
            "copy both files again, or move it away to compare without it."
        )
    return same


def _check_makers(path: Path, makers: NDArray[Any], records: int, names: int) -> None:
    _check_named(path, makers["kind"], makers["maker"], records, names)
    if len(makers) and int(makers["section"].max()) > max(Place):
        raise _damaged(path, f"a maker is in section {makers['section'].max()}")


def _check_rows(
    path: Path, rows: NDArray[Any], makers: NDArray[Any], records: int, names: int
) -> None:
    if not len(rows):
        return
    _check_named(path, rows["kind"], rows["maker"], records, names)
    if int(rows["record"].max()) >= records:
        raise _damaged(path, f"it names record {rows['record'].max():,} of {records:,}")
    section = max(int(rows["section"].max()), int(rows["maker_section"].max()))
    if section > max(Place):
        raise _damaged(path, f"a row is in section {section}")
    position = max(int(rows["position"].max()), int(rows["maker_position"].max()))
    if position >= _MOST_POSITIONS:
        raise _damaged(path, f"a row is of position {position:,}")
    if int(rows["marks"].max()) > _ALL_MARKS:
        raise _damaged(path, f"a row has marks {rows['marks'].max()}")
    with_more = rows[rows["count"] > 0]
    last = with_more["more"].astype(np.uint64) + with_more["count"]
    if len(last) and int(last.max()) > len(makers):
        raise _damaged(path, f"it names maker {int(last.max()) - 1:,} of {len(makers):,}")


def _check_named(
    path: Path, kind: NDArray[Any], maker: NDArray[Any], records: int, names: int
) -> None:
    if not len(kind):
        return
    if int(kind.max()) > max(Maker):
        raise _damaged(path, f"a maker is of kind {kind.max()}")
    of_records = maker[kind == Maker.RECORD]
    if len(of_records) and int(of_records.max()) >= records:
        raise _damaged(path, f"it names record {of_records.max():,} of {records:,}")
    by_name = maker[np.isin(kind, _BY_NAME)]
    by_name = by_name[by_name != NONE]
    if len(by_name) and int(by_name.max()) >= names:
        raise _damaged(path, f"it names text {by_name.max():,} of {names:,}")


def _blocks(path: Path, content: mmap.mmap | bytes) -> list[_Block]:
    """Every whole block, checked by itself."""
    if len(content) < HEAD.size:
        return []  # killed at the very start
    magic, version, row, maker, check = HEAD.unpack_from(content)
    if magic != MAGIC:
        raise _damaged(path, "it does not begin as such a file does")
    if crc32(content[: HEAD.size - 4]) != check:
        raise _damaged(path, "the checksum of its head is wrong")
    if version != VERSION:
        raise BuildError(
            f"{path} has version {version} of its format, this program reads {VERSION}; "
            "update it, or move the file away to compare without it."
        )
    if (row, maker) != (ROW.itemsize, MAKER.itemsize):
        raise _damaged(path, f"its rows have {row} bytes, its makers {maker}")
    found: list[_Block] = []
    counts = dict.fromkeys(KINDS, 0)
    at = HEAD.size
    while at + BLOCK.size <= len(content):
        head = content[at : at + BLOCK.size]
        kind, count, first, check, flags, check_of_head = BLOCK.unpack(head)
        if crc32(head[:-4]) != check_of_head:
            raise _damaged(path, f"the checksum of the block at byte {at:,} is wrong")
        if kind not in KINDS:
            name = struct.pack("<I", kind)
            raise _damaged(path, f"the block at byte {at:,} is of the unknown kind {name!r}")
        if first != counts[kind]:
            raise _damaged(path, f"a block begins at {first:,} where {counts[kind]:,} came before")
        counts[kind] += count
        begin = at + BLOCK.size
        size = _size_of(content, kind, count, begin)
        at = begin + -(-size // 8) * 8
        if at > len(content):
            break  # cut off: the run was killed
        with memoryview(content) as view, view[begin:at] as part:
            is_whole = crc32(part) == check
        if not is_whole:
            raise _damaged(
                path, f"the checksum of the {count:,} entries at byte {begin:,} is wrong"
            )
        entries = np.frombuffer(content, KINDS[kind], count, begin)
        texts = _texts(path, content, entries, begin) if kind == NAMES else []
        found.append(_Block(kind, flags, entries, texts))
    return found


def _size_of(content: mmap.mmap | bytes, kind: int, count: int, begin: int) -> int:
    """The bytes of a block's content; of names those behind their lengths, too."""
    size = count * KINDS[kind].itemsize
    if kind != NAMES or begin + size > len(content):
        return size
    return size + int(np.frombuffer(content, LENGTH, count, begin).sum(dtype=np.uint64))


def _texts(path: Path, content: mmap.mmap | bytes, lengths: NDArray[Any], begin: int) -> list[str]:
    at = begin + lengths.nbytes
    texts = []
    for length in lengths.tolist():
        try:
            texts.append(content[at : at + length].decode())
        except UnicodeDecodeError as error:
            raise _damaged(path, f"the name at byte {at:,} is no text") from error
        at += length
    return texts


def _damaged(path: Path, why: str) -> BuildError:
    return BuildError(
        f"{path} is damaged: {why}; copy it again, or move it away to compare without it."
    )
