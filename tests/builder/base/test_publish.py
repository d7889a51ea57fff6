"""A database appears whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.publish import published, reserve, written


def test_appears_when_the_block_succeeds(tmp_path: Path) -> None:
    target = reserve(tmp_path / "new" / "folder", "a.vis.db")
    with published(target) as temporary:
        temporary.write_text("done")
        assert not target.exists()
        assert temporary.parent == target.parent
    assert target.read_text() == "done"
    assert list(target.parent.iterdir()) == [target]


def test_nothing_is_left_when_it_fails(tmp_path: Path) -> None:
    target = reserve(tmp_path, "a.vis.db")

    def fail() -> None:
        with published(target) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_never_overwrites(tmp_path: Path) -> None:
    target = reserve(tmp_path, "a.vis.db")

    def race() -> None:
        with published(target) as temporary:
            temporary.write_text("mine")
            target.write_text("theirs")

    with pytest.raises(BuildError, match="exists already"):
        race()
    assert target.read_text() == "theirs"
    with pytest.raises(BuildError, match="exists already"):
        reserve(tmp_path, "a.vis.db")
    assert list(tmp_path.iterdir()) == [target]


def test_output_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match="not a directory"):
        reserve(tmp_path / "file", "a.vis.db")


def test_a_refused_file_leaves_no_folder_of_its_own(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()

    def refuse(output: Path) -> None:
        with written(output) as stream:
            stream.write(b"half")
            raise KeyError

    for output in (there / "a.csv", there / "new" / "deep" / "a.csv"):
        with pytest.raises(KeyError):
            refuse(output)
    assert list(there.iterdir()) == []
    with written(there / "new" / "deep" / "a.csv") as stream:
        stream.write(b"whole")
    assert (there / "new" / "deep" / "a.csv").read_bytes() == b"whole"


def test_a_folder_is_blamed_only_if_it_is_none(tmp_path: Path) -> None:
    with (
        pytest.raises(BuildError, match=r"^Cannot write .*/out: File exists\.$"),
        written(tmp_path / "out"),
    ):
        raise FileExistsError(17, "File exists")
    (tmp_path / "taken").touch()
    with (
        pytest.raises(BuildError, match="taken is not a directory; choose another output"),
        written(tmp_path / "taken" / "out"),
    ):
        pass
