"""The records of a file of events carry the checksums that TensorBoard asks for."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import crc32c, masked_crc32c

from msprobe_collector.monitor.records import Records, checksum


def test_the_checksum_is_castagnolis() -> None:
    assert checksum(b"123456789") == 0xE3069283  # of the catalogue of CRCs
    assert checksum(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 511, 512, 513, 100_003])
def test_the_checksum_is_tensorboards_at_every_seam(size: int) -> None:
    content = bytes(place * 7 % 251 for place in range(size))
    assert checksum(content) == crc32c(content)


@given(st.binary(max_size=2000))
def test_the_checksum_of_any_bytes_is_tensorboards(content: bytes) -> None:
    assert checksum(content) == crc32c(content)


def test_a_record_stands_between_its_length_and_its_checksum(tmp_path: Path) -> None:
    content = bytes(range(256)) * 3
    records = Records(tmp_path)
    records.write(content)
    [path] = tmp_path.glob("events.out.tfevents.*")
    length = struct.pack("<Q", len(content))
    begin = length + struct.pack("<I", masked_crc32c(length))
    # Before it is closed: a training that is stopped leaves what it has written.
    assert path.read_bytes() == begin + content + struct.pack("<I", masked_crc32c(content))
    records.close()
