"""Zip files of settings that become more than anybody has, or hold numbers that are none."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.configuration.pack import read_pack


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
