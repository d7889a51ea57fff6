"""Zip files of settings that become more than anybody has, or hold numbers that are none."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.configuration.compare import compare_packs
from msprobe_builder.configuration.conclusion import conclusion, outcome
from msprobe_builder.configuration.pack import read_pack
from msprobe_builder.facts.wording import tell


def packed(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    "files",
    [
        {"env": b"{}" + b" " * (60 << 20)},
        {f"hyperparameters/{n}.json": b"[" + b"{}," * (1 << 20) + b"{}]" for n in range(5)},
        {f"weights/step{n}/rank0/weight.json": b" " * (8 << 20) for n in range(17)},
        {"other": b"0" * (200 << 20)},
        {f"env{n}": bytes(1 << 20) for n in range(130)},
    ],
)
def test_what_would_become_too_large_is_not_unpacked(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    path = packed(tmp_path / "x.zip", files)
    with pytest.raises(UsageError, match=r"x\.zip: it would become \d+ MiB, more than the \d+ it"):
        read_pack(path)


def test_what_is_stored_as_it_is_may_be_as_large_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("env", json.dumps({"NCCL_ALGO": "Ring"}))
        archive.writestr("other", os.urandom(16 << 20))
    assert read_pack(path).variables == {"NCCL_ALGO": "Ring"}


@pytest.mark.parametrize("count", ["1e999", "-1e999", "NaN", '"many"', "[1]", "{}", "null"])
def test_a_count_that_is_none_is_damage(count: str, tmp_path: Path) -> None:
    content = f'{{"place": [{{"count": {count}}}]}}'.encode()
    path = packed(tmp_path / "x.zip", {"env": b"{}", "random/rank0.json": content})
    with pytest.raises(BuildError, match=r"x\.zip is damaged"):
        read_pack(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.zip")
    with pytest.raises(UsageError, match="it is no regular file"):
        read_pack(tmp_path / "x.zip")


NUMBERS = {"max": 1.0, "min": -1.0, "mean": 0.0, "norm": 2.0}
NOWHERE = dict.fromkeys(NUMBERS, "nan")
SET = {"NCCL_ALGO": "Ring", "HCCL_DETERMINISTIC": "true"}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"env": {}}, "cannot be told: the packs hold no entry that could be compared."),
        ({"env": {}, "pip": "other=1"}, "cannot be told: the packs hold no entry that"),
        ({"env": SET, "pip": "torch=2\nnumpy=1"}, "(4 entries of env, pip compared)"),
        ({"weights": {"w": NUMBERS, "v": NUMBERS}}, "(2 entries of weights compared)"),
        ({"weights": {"w": NUMBERS, "v": NOWHERE}}, "v of micro-step 0, rank 0 holds NaN on both"),
        ({"weights": {"v": NOWHERE}}, "cannot be told: the packs hold no entry that could be"),
    ],
)
def test_how_much_was_compared_is_said_of_equal_packs(
    files: dict[str, Any], words: str, tmp_path: Path
) -> None:
    names = {"weights": "weights/step0/rank0/weight.json"}
    content = {
        names.get(name, name): (one if isinstance(one, str) else json.dumps(one)).encode()
        for name, one in files.items()
    }
    pack = read_pack(packed(tmp_path / "x.zip", content))
    comparison = compare_packs(pack, pack)
    said = tell(conclusion(comparison))
    assert words in said
    assert outcome(comparison) == (
        "pass" if "compared)" in said and "NaN" not in said else "warning"
    )
