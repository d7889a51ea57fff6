"""Checkpoints that lie or have no end: one sentence each, at once, and no false "agree"."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import time
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_checks.checkpoint.compare import compare
from msprobe_checks.checkpoint.locate import read_checkpoint
from msprobe_checks.checkpoint.report import summary_lines

Content = dict[str, Any]
ROWS = 6


def verdict(first: Path, second: Path) -> str:
    return summary_lines(compare(read_checkpoint(first), read_checkpoint(second)))[-1]


def saved(folder: Path, name: str, content: object) -> Path:
    torch.save(content, folder / name)
    return folder / name


def doubled(times: int) -> Content:
    value: Content = {"t": torch.ones(2)}
    for _ in range(times):
        value = {"a": value, "b": value}
    return value


def holding_itself() -> Content:
    value: Content = {"t": torch.ones(2)}
    value["a"] = {"b": value}
    return value


def doubled_list() -> Content:
    value: list[Any] = [torch.ones(2)]
    for _ in range(40):
        value = [value, value]
    return {"a": value}


def doubled_key() -> object:
    key: Any = ("a",)
    for _ in range(40):
        key = (key, key)
    return key


@pytest.mark.parametrize(
    "make",
    [
        lambda: doubled(40),
        holding_itself,
        doubled_list,
        lambda: {"model": doubled(40)},
        lambda: {((1, 2), (3, 4)): torch.ones(2)},
        lambda: {"w": torch.ones(1).expand(1 << 40)},
        lambda: {"w": torch.ones(1, 1).expand(1 << 20, 1 << 20)},
    ],
)
def test_what_has_no_end_is_refused(make: Callable[[], object], tmp_path: Path) -> None:
    file = saved(tmp_path, "a.pt", make())
    begun = time.monotonic()
    with pytest.raises(BuildError, match=r"save (the model's|it again)"):
        read_checkpoint(file)
    assert time.monotonic() - begun < 60  # of a busy machine


@pytest.mark.parametrize("kind", ["pipe", "device", "link"])
def test_what_is_no_file_is_not_waited_for(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else "a.pt")
    why = "does not exist" if kind == "link" else "is no regular file"
    with pytest.raises(UsageError, match=rf"a\.pt {why}; give the file or directory"):
        read_checkpoint(path)


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("name", ["data.pkl", "DATA.PKL"])
def test_a_key_that_is_hashed_without_end_is_refused(
    tmp_path: Path, is_old: bool, name: str
) -> None:
    key = pickle.dumps(_Setting(doubled_key()), protocol=2)
    file = tmp_path / "a.pt"
    torch.save({"w": torch.ones(2)}, file, _use_new_zipfile_serialization=not is_old)
    if is_old:
        whole = file.read_bytes()
        [magic, version, system] = [pickle.dumps(one, 2) for one in _old_head(whole)]
        file.write_bytes(magic + version + system + key)
    else:
        entries = dict(_entries(file))
        with zipfile.ZipFile(file, "w") as archive:
            for own, content in entries.items():
                is_description = own.endswith("data.pkl")
                packed = own.replace("data.pkl", name) if is_description else own
                archive.writestr(packed, key if is_description else content)
    with pytest.raises(BuildError, match=r"a\.pt is damaged"):
        read_checkpoint(file)


class _Setting:
    """Pickled as ``{}`` with one key set: SETITEM hashes it."""

    def __init__(self, key: object) -> None:
        self.key = key

    def __reduce__(self) -> tuple[object, ...]:
        return dict, (), None, None, iter([(self.key, 1)])


def _old_head(whole: bytes) -> list[Any]:
    stream = io.BytesIO(whole)
    return [pickle.load(stream) for _ in range(3)]  # noqa: S301


def _entries(file: Path) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(file) as archive:
        return [(entry.filename, archive.read(entry)) for entry in archive.infolist()]


@pytest.mark.parametrize("size", [1 << 22, 1 << 28])
def test_what_was_packed_again_is_unpacked_within_bounds(tmp_path: Path, size: int) -> None:
    file = saved(tmp_path, "a.pt", {"w": torch.zeros(8)})
    entries = dict(_entries(file))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
        archive.writestr("a/data/9", bytes(size))
    if size == 1 << 22:
        assert list(read_checkpoint(file).parameters) == ["w"]
        return
    with pytest.raises(BuildError, match=r"it would become \d+ MiB, more than the"):
        read_checkpoint(file)


@pytest.mark.parametrize("place", [0, 17, 63, 64, 79])
def test_a_flipped_bit_is_no_difference_of_the_model(tmp_path: Path, place: int) -> None:
    content = {"a": torch.arange(16.0), "b": torch.arange(4.0)}
    good, bad = saved(tmp_path, "a.pt", content), saved(tmp_path, "b.pt", content)
    whole = bytearray(bad.read_bytes())
    start = whole.index(torch.arange(16.0).numpy().tobytes())
    if place >= 64:
        start, place = whole.index(torch.arange(4.0).numpy().tobytes(), start + 64), place - 64
    whole[start + place] ^= 1
    bad.write_bytes(whole)
    with pytest.raises(BuildError, match=r"b\.pt is damaged: its checksums"):
        verdict(good, bad)


@pytest.mark.parametrize("files", [("a.bin", "b.bin"), ("b.bin", "a.bin"), ("a.bin", "a.bin")])
def test_an_index_that_names_another_file_is_told(tmp_path: Path, files: tuple[str, str]) -> None:
    saved(tmp_path, "a.bin", {"one": torch.ones(2)})
    saved(tmp_path, "b.bin", {"two": torch.ones(2), "stray": torch.zeros(2)})
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": dict(zip(("one", "two"), files, strict=True))}))
    if files == ("a.bin", "b.bin"):
        assert list(read_checkpoint(tmp_path).parameters) == ["one", "two", "stray"]
        return
    with pytest.raises(BuildError, match=r"is not in [ab]\.bin, where .*index\.json has it"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("places", [[0], [1, 3], [0, 1, 2, 3]])
def test_nan_on_both_sides_is_told_beside_the_agreement(tmp_path: Path, places: list[int]) -> None:
    value = torch.arange(4.0)
    value[places] = torch.nan
    file = saved(tmp_path, "a.pt", {"w": value, "x": torch.ones(2)})
    said = verdict(file, file)
    number = "1 element is" if len(places) == 1 else f"{len(places)} elements are"
    assert f"({6 - len(places)} elements), but {number} NaN on both sides, first in w." in said


@pytest.mark.parametrize(
    ("tensor", "but"),
    [
        (torch.zeros(0), ""),
        (torch.zeros(3, 0), ""),
        (torch.full((3,), torch.nan), ", but 3 elements are NaN on both sides, first in w"),
        (torch.tensor(torch.nan), ", but 1 element is NaN on both sides, first in w"),
        (torch.full((2,), complex(0, math.nan)), ", but 2 elements are NaN on both sides, first"),
    ],
)
def test_where_no_element_is_compared_nothing_agrees(
    tensor: torch.Tensor, but: str, tmp_path: Path
) -> None:
    file = saved(tmp_path, "a.pt", {"w": tensor})
    said = verdict(file, file)
    assert f"cannot tell: no element of the 1 common parameter could be compared{but}" in said


def test_nan_on_both_sides_hides_no_other_difference(tmp_path: Path) -> None:
    first, second = torch.tensor([torch.nan, 1.0, 2.0]), torch.tensor([torch.nan, 1.0, 3.0])
    a, b = (saved(tmp_path, f"{n}.pt", {"w": one}) for n, one in (("a", first), ("b", second)))
    assert "1 of 1 common parameters differ beyond rounding" in verdict(a, b)


@pytest.mark.parametrize("dtype", ["float4_e2m1fn_x2", "bits8", "bits16", "bits1x8"])
@pytest.mark.parametrize("change", [0, 1])
def test_types_that_torch_computes_nothing_with_are_compared_by_their_bytes(
    tmp_path: Path, dtype: str, change: int
) -> None:
    kind = getattr(torch, dtype)
    files = [
        saved(tmp_path, f"{number}.pt", {"w": (torch.arange(8, dtype=torch.uint8) + n).view(kind)})
        for number, n in enumerate((0, change))
    ]
    said = verdict(*files)
    assert ("agree up to rounding" in said) == (not change), said
    assert ("its bytes differ; torch computes nothing with" in said) == bool(change)


def test_types_without_comparison_are_compared_all_the_same(tmp_path: Path) -> None:
    """Of a head that may be the embedding, and of parts that should be equal."""
    small = torch.arange(16.0).reshape(4, 4).to(torch.float8_e4m3fn)
    a = saved(tmp_path, "a.pt", {"model.embed_tokens.weight": small, "lm_head.weight": small})
    b = saved(tmp_path, "b.pt", {"model.embed_tokens.weight": small})
    assert "all 1 common parameters agree" in verdict(a, b)
    for rank in range(2):
        folder = tmp_path / "m" / f"mp_rank_0{rank}"
        folder.mkdir(parents=True)
        args = Namespace(tensor_model_parallel_size=2)
        model = {"decoder.final_layernorm.weight": small[0]}
        saved(folder, "model_optim_rng.pt", {"args": args, "model": model})
    assert not read_checkpoint(tmp_path / "m").notes


@pytest.mark.parametrize(
    "args",
    [
        {"num_experts": 2**31 - 1},
        {"num_experts": 65_537},
        {"num_experts": 3},
        {"num_experts": 5, "expert_model_parallel_size": 2},
        {"num_experts": 8, "expert_model_parallel_size": 3},
    ],
)
def test_experts_that_cannot_be_are_told(tmp_path: Path, args: dict[str, int]) -> None:
    folder = tmp_path / "mp_rank_00"
    folder.mkdir()
    model = {"decoder.layers.0.mlp.experts.weight1": torch.ones(4, 8)}
    saved(folder, "model_optim_rng.pt", {"args": Namespace(**args), "model": model})
    with pytest.raises(BuildError, match="experts"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("other", [1.0, math.inf])
def test_infinity_and_nan_are_no_rounding(tmp_path: Path, value: float, other: float) -> None:
    for name, number in (("a", value), ("b", other)):
        torch.save({"w": torch.tensor([1.0, number])}, tmp_path / f"{name}.pt")
    for first, second in (("a", "b"), ("b", "a")):
        said = verdict(tmp_path / f"{first}.pt", tmp_path / f"{second}.pt")
        is_equal = value == other
        assert ("agree up to rounding" in said) == is_equal, said
        assert ("NaN or infinity" in said) != is_equal, said


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(3).to_sparse_csr(),
        lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        lambda: torch.empty(3, device="meta"),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_compared_is_said_beside_what_agrees(
    make: Callable[[], torch.Tensor], tmp_path: Path
) -> None:
    one = read_checkpoint(saved(tmp_path, "a.pt", {"w": torch.ones(3), "odd": make()}))
    other = read_checkpoint(saved(tmp_path, "b.pt", {"w": torch.ones(3), "odd": torch.ones(3)}))
    for pair in ((one, one), (one, other), (other, one)):
        said = summary_lines(compare(*pair))[-1]
        assert "all 1 common parameters agree" in said
        assert "1 is sparse, quantized, nested or without numbers and was not compared: odd" in said
