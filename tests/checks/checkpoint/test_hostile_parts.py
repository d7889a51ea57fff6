"""Distributed checkpoints whose index lies: one sentence each, and no false "agree"."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata
from torch.distributed.checkpoint.state_dict_saver import save

from msprobe_builder.base.errors import BuildError
from msprobe_checks.checkpoint.locate import read_checkpoint
from tests.checks.checkpoint.test_hostile import ROWS, saved, verdict


@pytest.fixture
def distributed(tmp_path: Path) -> Path:
    """A distributed checkpoint of one tensor in two halves of rows."""
    whole = torch.arange(ROWS * 2.0).reshape(ROWS, 2)
    save({"w": whole[:3].clone(), "v": whole[3:].clone()}, checkpoint_id=tmp_path / "dcp")
    saved(tmp_path, "reference.pt", {"w": whole})

    def join(metadata: Any) -> None:
        entries = metadata.state_dict_metadata
        halves = [entries.pop("v"), entries["w"]]
        entries["w"] = replace(
            halves[1], size=torch.Size([ROWS, 2]), chunks=[_chunk(0, 3), _chunk(3, 3)]
        )
        places = {index.fqn: place for index, place in metadata.storage_data.items()}
        first, second = [replace(next(iter(metadata.storage_data)), fqn="w") for _ in range(2)]
        metadata.storage_data.clear()
        for index, start, name in ((first, 0, "w"), (second, 3, "v")):
            key = replace(index, offset=torch.Size([start, 0]), index=start)
            metadata.storage_data[key] = places[name]

    changed(tmp_path / "dcp", join)
    return tmp_path / "dcp"


def _chunk(start: int, rows: int, columns: int = 2) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(torch.Size([start, 0]), torch.Size([rows, columns]))


def changed(folder: Path, change: Callable[[Any], None]) -> None:
    file = folder / ".metadata"
    metadata = pickle.loads(file.read_bytes())  # noqa: S301
    change(metadata)
    file.write_bytes(pickle.dumps(metadata))


def test_a_distributed_checkpoint_is_joined(distributed: Path) -> None:
    assert "agree up to rounding (12 elements)" in verdict(
        distributed, distributed.parent / "reference.pt"
    )


@pytest.mark.parametrize(
    ("chunks", "problem"),
    [
        ([_chunk(0, 3), _chunk(0, 3)], "parts of it overlap"),
        ([_chunk(0, 3)], "parts of it are missing"),
        ([_chunk(0, 4), _chunk(3, 3)], "parts of it overlap"),
        ([_chunk(0, 3), _chunk(4, 2)], "parts of it are missing"),
        ([_chunk(0, 3), _chunk(3, 4)], "a part of it lies outside"),
        ([_chunk(0, 3, 1), _chunk(3, 3)], "parts of it are missing"),
        ([], "parts of it are missing"),
    ],
)
def test_what_lies_in_no_part_or_in_two_is_told(
    distributed: Path, chunks: list[ChunkStorageMetadata], problem: str
) -> None:
    def change(metadata: Any) -> None:
        metadata.state_dict_metadata["w"].chunks = chunks
        place = next(iter(metadata.storage_data.values()))
        index = next(iter(metadata.storage_data))
        for chunk in chunks:
            metadata.storage_data.setdefault(replace(index, offset=chunk.offsets), place)

    changed(distributed, change)
    with pytest.raises(BuildError, match=f"does not describe w once and as a whole: {problem}"):
        read_checkpoint(distributed)


def test_a_file_that_holds_another_part_than_its_index_says_is_damaged(distributed: Path) -> None:
    def change(metadata: Any) -> None:
        metadata.state_dict_metadata["w"].chunks = [_chunk(0, 4), _chunk(4, 2)]
        [first, second] = metadata.storage_data.items()
        metadata.storage_data = {
            replace(first[0], offset=torch.Size([0, 0])): first[1],
            replace(first[0], offset=torch.Size([4, 0])): second[1],
        }

    changed(distributed, change)
    with pytest.raises(BuildError, match="a part of a tensor cannot be read"):
        verdict(distributed, distributed.parent / "reference.pt")


def test_an_index_that_names_another_type_is_no_index_of_its_parts(distributed: Path) -> None:
    def change(metadata: Any) -> None:
        entry = metadata.state_dict_metadata["w"]
        entry.properties = replace(entry.properties, dtype=torch.float64)

    changed(distributed, change)
    with pytest.raises(BuildError, match="a part of a tensor cannot be read"):
        verdict(distributed, distributed.parent / "reference.pt")


def without(field: str) -> Callable[[Any], Any]:
    def change(place: Any) -> Any:
        place = replace(place)
        del place.__dict__[field]
        return place

    return change


def with_other(field: str, value: Any) -> Callable[[Any], Any]:
    return lambda place: replace(place, **{field: value})


_NOT_NAMES: tuple[Any, ...] = (None, 3, b"__0_0.distcp", ["x"], "", "\0")
_NOT_THERE = ("../x", "/etc/passwd", ".", "none.distcp")
_NOT_NUMBERS: tuple[Any, ...] = (None, "9", -1, 1.5, 2**62, 10**40)
WRONG_PLACES: dict[str, Callable[[Any], Any]] = {
    **{f"without {one}": without(one) for one in ("relative_path", "offset", "length")},
    **{
        f"{field} is {value!r}": with_other(field, value)
        for field, values in (
            ("relative_path", (*_NOT_NAMES, *_NOT_THERE)),
            ("offset", _NOT_NUMBERS),
            ("length", (*_NOT_NUMBERS, 0)),
        )
        for value in values
    },
    "no record": lambda _: None,
    "a shape": lambda _: torch.Size([1, 2]),
    "a text": lambda _: "__0_0.distcp",
}


@pytest.mark.parametrize("name", WRONG_PLACES)
def test_a_place_that_is_none_is_damage(distributed: Path, name: str) -> None:
    def change(metadata: Any) -> None:
        for index, place in list(metadata.storage_data.items()):
            metadata.storage_data[index] = WRONG_PLACES[name](place)

    changed(distributed, change)
    with pytest.raises(BuildError) as said:
        verdict(distributed, distributed.parent / "reference.pt")
    assert str(distributed) in str(said.value)


def wrong_entry(field: str, value: Any) -> Callable[[Any], None]:
    def change(metadata: Any) -> None:
        entry = metadata.state_dict_metadata["w"]
        if field == "dtype":
            entry.properties.dtype = value
        elif field in ("offsets", "sizes"):
            setattr(entry.chunks[0], field, value)
        else:
            setattr(entry, field, value)

    return change


_WRONG: dict[str, tuple[Any, ...]] = {
    "dtype": (None, "float32", 3, torch.Size([1]), torch.strided),
    "size": (None, 3, ("x", 2), (-6, 2), (10**40, 2), (True, 2), ()),
    "chunks": (None, 3, [None], {}, [torch.Size([1])]),
    "offsets": (None, (0,), ("0", "0"), (10**40, 0)),
    "sizes": (None, (3,), ("3", "2"), (10**40, 2)),
    "properties": (None, torch.float32),
}
WRONG_ENTRIES = {
    f"{field} is {value!r}": wrong_entry(field, value)
    for field, values in _WRONG.items()
    for value in values
}


@pytest.mark.parametrize("name", WRONG_ENTRIES)
def test_an_entry_that_describes_no_tensor_is_damage(distributed: Path, name: str) -> None:
    changed(distributed, WRONG_ENTRIES[name])
    with pytest.raises(BuildError) as said:
        verdict(distributed, distributed.parent / "reference.pt")
    assert str(distributed) in str(said.value)


def test_a_part_that_repeats_what_it_holds_takes_no_memory(tmp_path: Path) -> None:
    """Ten thousand times as many elements as the file has bytes."""
    save({"w": torch.ones(4)}, checkpoint_id=tmp_path / "dcp")
    part, size = io.BytesIO(), torch.Size([1 << 30])
    torch.save(torch.ones(1).expand(size), part)
    [file] = (tmp_path / "dcp").glob("*.distcp")
    file.write_bytes(part.getvalue())

    def change(metadata: Any) -> None:
        entry = metadata.state_dict_metadata["w"]
        entry.size, entry.chunks[:] = size, [ChunkStorageMetadata(torch.Size([0]), size)]
        [(index, place)] = metadata.storage_data.items()
        whole = replace(place, offset=0, length=len(part.getvalue()))
        metadata.storage_data = {index: whole}

    changed(tmp_path / "dcp", change)
    with pytest.raises(BuildError, match="a part of a tensor cannot be read") as told:
        verdict(tmp_path / "dcp", tmp_path / "dcp")
    assert "repeats" in str(told.value.__cause__)


def test_a_flipped_bit_in_a_part_is_found(distributed: Path) -> None:
    [file] = distributed.glob("*.distcp")
    whole = bytearray(file.read_bytes())
    at = whole.index(torch.arange(6.0).numpy().tobytes())
    whole[at + 3] ^= 1
    file.write_bytes(whole)
    with pytest.raises(BuildError, match="a part of a tensor cannot be read"):
        verdict(distributed, distributed.parent / "reference.pt")
