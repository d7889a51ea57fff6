"""Tensor files: what is read, and what is refused without a crash."""

from __future__ import annotations

import os
import pickle
import socket
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.metrics.tensor_file import TensorFileError, open_tensor


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dump_tensor_data beside which lies a tensor that is none of its business."""
    np.save(tmp_path / "outside.npy", np.ones(3))
    result = tmp_path / "dump_tensor_data"
    result.mkdir()
    np.save(result / "inside.npy", np.arange(3.0))
    return result


def _why(folder: Path | None, name: str | None) -> TensorFileError:
    with pytest.raises(TensorFileError) as raised:
        open_tensor(folder, name)
    return raised.value


def test_a_file_of_the_dump_is_read(folder: Path) -> None:
    tensor = open_tensor(folder, "inside.npy")
    assert tensor.shape == (3,)
    assert tensor.piece((...,)).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("array", [np.float32(2.5), np.zeros((0, 3)), np.arange(6).reshape(2, 3)])
def test_any_shape_is_read(folder: Path, array: Any) -> None:
    np.save(folder / "x.npy", array)
    tensor = open_tensor(folder, "x.npy")
    assert tensor.shape == np.shape(array)
    assert tensor.piece((...,)).tolist() == np.ravel(array).tolist()


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../outside.npy",
        "..\\outside.npy",
        "/etc/passwd",
        "sub/inside.npy",
        "inside.npy\0.npy",
    ],
)
def test_names_that_lead_elsewhere_are_refused(folder: Path, name: str) -> None:
    assert _why(folder, name).code == "refused"


def test_an_absolute_path_to_a_real_file_is_refused(folder: Path) -> None:
    assert _why(folder, str(folder / "inside.npy")).code == "refused"


def test_a_link_out_of_the_dump_is_refused(folder: Path) -> None:
    (folder / "link.npy").symlink_to(folder.parent / "outside.npy")
    assert _why(folder, "link.npy").code == "refused"


def test_links_within_the_dump_and_to_the_dump_are_followed(folder: Path) -> None:
    (folder / "link.npy").symlink_to(folder / "inside.npy")
    elsewhere = folder.parent / "elsewhere"
    elsewhere.symlink_to(folder)
    assert open_tensor(elsewhere, "link.npy").shape == (3,)


def test_what_is_no_regular_file_is_refused_without_waiting(folder: Path) -> None:
    os.mkfifo(folder / "pipe.npy")
    (folder / "directory.npy").mkdir()
    assert _why(folder, "pipe.npy").code == "refused"
    assert _why(folder, "directory.npy").code == "refused"
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind(f"{short}/s.npy")
        assert _why(Path(short), "s.npy").code == "refused"


@pytest.mark.parametrize("name", ["a.npz", "a.pkl", "a", "a.pt.gz"])
def test_other_kinds_of_file_are_refused(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"x")
    assert _why(folder, name).code == "refused"


@pytest.mark.parametrize("name", ["none.npy", "x" * 300 + ".npy", "\ud800.npy", None])
def test_what_is_not_there_is_missing(folder: Path, name: str | None) -> None:
    assert _why(folder, name).code == "missing"


def test_links_in_a_circle_are_missing(folder: Path) -> None:
    (folder / "a.npy").symlink_to(folder / "b.npy")
    (folder / "b.npy").symlink_to(folder / "a.npy")
    assert _why(folder, "a.npy").code == "missing"


def test_a_dump_without_files(folder: Path) -> None:
    assert _why(None, "inside.npy").code == "missing"
    assert folder.is_dir()


class _Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("suffix", ["pt", "npy"])
def test_no_file_runs_code(folder: Path, suffix: str) -> None:
    if suffix == "pt":
        pytest.importorskip("torch")
    proof = folder / "ran"
    (folder / f"a.{suffix}").write_bytes(pickle.dumps(_Touch(proof)))
    assert _why(folder, f"a.{suffix}").code == "unreadable"
    if suffix == "npy":
        np.save(folder / "object.npy", np.array([_Touch(proof)]), allow_pickle=True)
        assert _why(folder, "object.npy").code == "unreadable"
    assert not proof.exists()


def test_torch_saved_code_does_not_run(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    proof = folder / "ran"
    for name, zipped in (("new.pt", True), ("old.pt", False)):
        torch.save(_Touch(proof), folder / name, _use_new_zipfile_serialization=zipped)
        assert _why(folder, name).code == "unreadable"
    assert not proof.exists()


@pytest.mark.parametrize("array", [np.array(["text"]), np.array(["2020-01-01"], "M8[D]")])
def test_arrays_without_numbers_are_unreadable(folder: Path, array: Any) -> None:
    np.save(folder / "x.npy", array)
    assert _why(folder, "x.npy").code == "unreadable"


def test_torch_files_old_and_new(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    for name, content, zipped in (
        ("new.pt", x, True),
        ("old.pt", x, False),
        ("parameter.pt", torch.nn.Parameter(x), True),
        ("turned.pt", x.t().contiguous().t(), True),
    ):
        torch.save(content, folder / name, _use_new_zipfile_serialization=zipped)
        tensor = open_tensor(folder, name)
        assert tensor.shape == (2, 3)
        assert tensor.piece((1,)).tolist() == [3.0, 4.0, 5.0]


def test_a_torch_file_that_claims_more_than_it_holds(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save(torch.ones(1).expand(1 << 40, 1 << 20), folder / "bomb.pt")
    assert _why(folder, "bomb.pt").code == "unreadable"


def test_torch_files_that_hold_no_dense_tensor(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    for number, content in enumerate(
        (
            {"a": 1},
            [torch.ones(2)],
            None,
            torch.eye(3).to_sparse(),
            torch.empty(3, device="meta"),
            torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        )
    ):
        torch.save(content, folder / f"{number}.pt")
        assert _why(folder, f"{number}.pt").code == "unreadable"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_another_bit_in_the_elements_is_told(tmp_path: Path, share: float) -> None:
    """Which torch itself would read as another number."""
    torch = pytest.importorskip("torch")
    path = tmp_path / "a.pt"
    torch.save(torch.arange(100_000.0), path)
    content = bytearray(path.read_bytes())
    content[int(len(content) * share)] ^= 1
    path.write_bytes(content)
    assert not torch.load(path).equal(torch.arange(100_000.0))
    problem = _why(tmp_path, path.name)
    assert problem.code == "unreadable"
    assert "checksum" in problem.reason


@given(st.data())
def test_damaged_files_never_crash(data: st.DataObject) -> None:
    """Cut or overwritten anywhere: read, or refused with a reason."""
    torch = pytest.importorskip("torch")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "a.npy", np.arange(20.0))
        torch.save(torch.arange(20.0), folder / "a.pt")
        torch.save(torch.arange(20.0), folder / "b.pt", _use_new_zipfile_serialization=False)
        path = folder / data.draw(st.sampled_from(["a.npy", "a.pt", "b.pt"]))
        content = bytearray(path.read_bytes())
        if data.draw(st.booleans()):
            del content[data.draw(st.integers(0, len(content))) :]
        else:
            at = data.draw(st.integers(0, len(content) - 8))
            content[at : at + 8] = data.draw(st.binary(min_size=1, max_size=8))
        path.write_bytes(content)
        problem = None
        try:
            tensor = open_tensor(folder, path.name)
        except TensorFileError as error:
            problem = error.code
        if problem is None:
            assert tensor.piece((...,)).size == np.prod(tensor.shape)
        assert problem in (None, "unreadable")
