"""The archives that ``torch.save`` writes, read without torch where they hold one plain tensor.

Importing torch takes seconds, and a build of many ranks would do so in each of its processes. What
an archive describes is evaluated only if it is what torch writes for a plain tensor, by a few
opcodes that make numbers, texts and tuples: nothing in the file can name a function to be called.
Everything else is left to torch.
"""

from __future__ import annotations

import os
import pickletools
import struct
import sys
import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.crc import crc32
from msprobe_builder.files.regular import open_regular

_CHECKED = 1 << 20  # bytes: so many at once stay in the cache
_LARGEST_DESCRIPTION = 1 << 12  # bytes: that of a plain tensor has some 200
_LOCAL_HEADER = struct.Struct("<4s22x2H")
_SIGNATURE = b"PK\3\4"
_BESIDE = frozenset(
    "version byteorder .format_version .storage_alignment .data/serialization_id".split()
)
# Types that numpy has, too; it makes float64 and int64 of them as fast as torch.
_TYPES = {
    f"torch {name}Storage": np.dtype(kind)
    for name, kind in {
        "Float": "<f4",
        "Double": "<f8",
        "Half": "<f2",
        "Long": "<i8",
        "Int": "<i4",
        "Short": "<i2",
        "Char": "i1",
        "Byte": "u1",
    }.items()
}


class _Call(NamedTuple):
    function: Any
    arguments: Any


class _Stored(NamedTuple):
    key: Any


class _Name(NamedTuple):
    text: str


def is_archive(path: Path) -> bool:
    """Whether it is of the form that ``torch.save`` writes today; OSError for no regular file."""
    with os.fdopen(open_regular(path), "rb") as file:
        return zipfile.is_zipfile(file)


def is_whole(path: Path) -> bool:
    """Whether the checksums in the archive are those of its contents."""
    try:
        with os.fdopen(open_regular(path), "rb") as file, zipfile.ZipFile(file) as archive:
            content = _mapped(path).data
            return all(_agrees(archive, entry, content) for entry in archive.infolist())
    except (zipfile.BadZipFile, zlib.error, EOFError):
        return False


def is_compressed(path: Path) -> bool:
    """Whether anything in the archive is not stored as it is.

    ``torch.save`` compresses nothing, and ``torch.load`` would map what is compressed as elements.
    """
    with zipfile.ZipFile(path) as archive:
        return any(one.compress_type != zipfile.ZIP_STORED for one in archive.infolist())


def plain_tensor(path: Path) -> NDArray[Any] | None:
    """The mapped tensor of an archive that holds one dense tensor of a type that numpy has.

    None for all else, which torch may read or refuse; ValueError where elements are missing, which
    torch would take from what lies behind.
    """
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        root = next(iter(entries), "").partition("/")[0]
        description = entries.get(f"{root}/data.pkl")
        if description is None or description.file_size > _LARGEST_DESCRIPTION:
            return None
        found = _described(archive.read(description))
        if found is None or sys.byteorder != "little":
            return None
        key, dtype, offset, shape = found
        stored = entries.get(f"{root}/data/{key}")
        own = {f"{root}/{name}" for name in _BESIDE} | {f"{root}/data.pkl", f"{root}/data/{key}"}
        if stored is None or len(entries) < len(archive.infolist()) or not own >= entries.keys():
            return None
        order = entries.get(f"{root}/byteorder")
        if order is not None and archive.read(order) != b"little":
            return None
    content = _mapped(path)
    start = _start(stored, content.data)
    end = offset + prod(shape)
    if start is None:
        return None
    if end * dtype.itemsize > stored.file_size:
        raise ValueError("it claims more elements than it holds")
    whole = content[start : start + stored.file_size]
    return whole[: whole.size - whole.size % dtype.itemsize].view(dtype)[offset:end].reshape(shape)


def _mapped(path: Path) -> NDArray[np.uint8]:
    return np.memmap(path, np.uint8, "r").view(np.ndarray)


def _start(entry: zipfile.ZipInfo, content: memoryview) -> int | None:
    """Where the bytes of an entry begin that are stored as they are; None for any other."""
    header = content[entry.header_offset :][: _LOCAL_HEADER.size]
    is_plain = entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 1
    if not is_plain or len(header) < _LOCAL_HEADER.size:
        return None
    signature, name, extra = _LOCAL_HEADER.unpack(header)
    start = entry.header_offset + _LOCAL_HEADER.size + int(name) + int(extra)
    fits = entry.file_size == entry.compress_size <= len(content) - start
    return start if signature == _SIGNATURE and fits else None


def _agrees(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, content: memoryview) -> bool:
    start = _start(entry, content)
    if entry.file_size < _CHECKED or start is None:
        with archive.open(entry) as member:
            while member.read(_CHECKED):  # BadZipFile when the checksum is wrong
                pass
        return True
    found, add = 0, crc32()
    for at in range(start, start + entry.file_size, _CHECKED):
        found = add(content[at : min(at + _CHECKED, start + entry.file_size)], found)
    return found == entry.CRC


def _described(description: bytes) -> tuple[str, np.dtype[Any], int, tuple[int, ...]] | None:
    """The key of the elements, their type, which is the first, and the shape."""
    try:
        described = _evaluated(description)
    except (ValueError, IndexError, UnicodeDecodeError):
        return None
    match described:
        case _Call(
            _Name("torch._utils _rebuild_tensor_v2"),
            (
                _Stored(("storage", _Name(kind), str(key), str(), int())),
                int(offset),
                tuple(shape),
                tuple(strides),
                bool(),
                _Call(_Name("collections OrderedDict"), ()),
            ),
        ) if kind in _TYPES and key.isdecimal() and offset >= 0:
            return (key, _TYPES[kind], offset, shape) if _is_dense(shape, strides) else None
    return None


def _is_dense(shape: tuple[Any, ...], strides: tuple[Any, ...]) -> bool:
    """Whether the elements lie behind each other in the order of the dimensions."""
    expected = 1
    if len(shape) != len(strides):
        return False
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if type(size) is not int or size < 1 or (size > 1 and stride != expected):
            return False
        expected *= size
    return True


def _evaluated(description: bytes) -> object:
    """What a pickle of names, numbers, texts and tuples says; None for any other."""
    stack: list[Any] = []
    marks: list[int] = []
    for opcode, argument, _ in pickletools.genops(description):
        match opcode.name:
            case "PROTO" | "BINPUT" | "LONG_BINPUT":
                pass
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINUNICODE":
                stack.append(argument)
            case "NEWFALSE" | "NEWTRUE":
                stack.append(opcode.name == "NEWTRUE")
            case "GLOBAL":
                stack.append(_Name(str(argument)))
            case "MARK":
                marks.append(len(stack))
            case "EMPTY_TUPLE":
                stack.append(())
            case "TUPLE":
                at = marks.pop()
                stack[at:] = [tuple(stack[at:])]
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                at = len(stack) - int(opcode.name[-1])
                if at < 0:
                    return None
                stack[at:] = [tuple(stack[at:])]
            case "BINPERSID":
                stack.append(_Stored(stack.pop()))
            case "REDUCE":
                arguments = stack.pop()
                stack.append(_Call(stack.pop(), arguments))
            case "STOP":
                return stack.pop()
            case _:
                return None
    return None
