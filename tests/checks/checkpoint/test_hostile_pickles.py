"""What a description of tensors may say in a file of torch's: each form ends in one sentence."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from msprobe_builder.base.errors import BuildError
from msprobe_checks.checkpoint.locate import read_checkpoint

RUN = b"X\x0c\0\0\0touch pwned!"


def long(value: int) -> bytes:
    return b"\x8a\x08" + struct.pack("<q", value)


def numbers(values: Iterable[int]) -> bytes:
    return b"(" + b"".join(map(long, values)) + b"t"


def rebuilt(
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int = 0,
    kind: bytes = b"FloatStorage",
) -> bytes:
    """``{"w": tensor}`` over the four numbers that the file holds."""
    storage = b"(X\7\0\0\0storagectorch\n" + kind + b"\nX\1\0\0\x000X\3\0\0\0cpu" + long(4) + b"tQ"
    made = storage + long(offset) + numbers(shape) + numbers(stride)
    end = b"\x89ccollections\nOrderedDict\n)Rt"
    return b"\x80\x02}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n(" + made + end + b"Rs."


FORMS: dict[str, tuple[bytes, str]] = {
    # Code by each opcode that calls something.
    "REDUCE": (b"\x80\x02cposix\nsystem\n" + RUN + b"\x85R.", "without running code"),
    "STACK_GLOBAL": (b"\x80\x04\x8c\5posix\x8c\6system\x93" + RUN + b"\x85R.", "running code"),
    "INST": (b"(" + RUN + b"iposix\nsystem\n.", "without running code"),
    "OBJ": (b"(cposix\nsystem\n" + RUN + b"o.", "without running code"),
    "NEWOBJ": (b"\x80\x02cposix\nsystem\n" + RUN + b"\x85\x81.", "running code"),
    "BUILD of a class": (b"\x80\x02ctorch\nTensor\n)\x81}X\1\0\0\0aK\1sb.", "is damaged"),
    "EXT": (b"\x80\x02\x82\1.", "without running code"),
    "another persistent id": (b"\x80\x02X\7\0\0\0storageQ.", "without running code"),
    # Sizes that nobody has.
    "LONG4 without end": (b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"\1.", "is damaged"),
    "a number of millions of digits": (b"\x80\x02}I" + b"9" * 2**21 + b"\nK\1s.", "is damaged"),
    "BYTEARRAY8 of a tebibyte": (b"\x80\5\x96" + struct.pack("<Q", 2**40) + b".", "is damaged"),
    "FRAME of an exbibyte": (b"\x80\4\x95" + struct.pack("<Q", 2**60) + b"}.", "running code"),
    "a memo of two thousand million": (b"\x80\x02}r\xff\xff\xff\x7f.", "holds no tensors"),
    # Tensors that reach beyond what there is.
    "elements repeated": (rebuilt((1 << 40,), (0,)), "of which its file holds 4"),
    "behind the end": (rebuilt((400,), (1,)), "is damaged"),
    "an offset behind the end": (rebuilt((4,), (1,), 1 << 40), "is damaged"),
    "an offset before the beginning": (rebuilt((2,), (1,), -1), "is damaged"),
    "backwards": (rebuilt((4,), (-1,), 3), "is damaged"),
    "a negative size": (rebuilt((-4,), (1,)), "is damaged"),
    "sizes beyond 64 bits": (rebuilt((1 << 62, 4), (1, 1)), "is damaged"),
    "strides beyond 64 bits": (rebuilt((2, 2), (1 << 61, 1)), "is damaged"),
    "another kind of storage": (rebuilt((4,), (1,), 0, b"system"), "is damaged"),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_description_that_asks_for_more_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    description, sentence = FORMS[name]
    monkeypatch.chdir(tmp_path)
    file = described(tmp_path / "a.pt", description)
    with pytest.raises(BuildError, match=sentence) as told:
        read_checkpoint(file)
    assert "\n" not in str(told.value)
    assert [one.name for one in tmp_path.iterdir()] == ["a.pt"]


def test_the_same_description_without_a_lie_is_read(tmp_path: Path) -> None:
    file = described(tmp_path / "a.pt", rebuilt((2, 2), (2, 1)))
    [one] = read_checkpoint(file).parameters.values()
    assert one.load().tolist() == [[1, 1], [1, 1]]


def described(path: Path, description: bytes) -> Path:
    """A file of four ones with another description, and checksums of it."""
    torch.save({"w": torch.ones(4)}, path)
    with zipfile.ZipFile(path) as archive:
        entries = {one.filename: archive.read(one) for one in archive.infolist()}
    [name] = [one for one in entries if one.endswith("data.pkl")]
    with zipfile.ZipFile(path, "w") as archive:
        for one, content in (entries | {name: description}).items():
            archive.writestr(one, content)
    return path
