"""Tensor files: what is read, and what is refused without a crash."""

from __future__ import annotations

import itertools
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.base.crc import crc32
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


@pytest.mark.parametrize("name", ["none.npy", "x" * 300 + ".npy", "\ud800.npy"])
def test_what_is_not_there_is_missing(folder: Path, name: str) -> None:
    assert _why(folder, name).code == "missing"


def test_what_no_file_is_named_for_was_not_saved(folder: Path) -> None:
    assert _why(folder, None).code == "unsaved"


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


@pytest.fixture(params=["isal", "zlib"])
def checksum(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whose CRC-32 is used: isal may be there or not."""
    if request.param == "isal":
        pytest.importorskip("isal")
    else:
        monkeypatch.setitem(sys.modules, "isal", None)
        monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    crc32.cache_clear()
    assert crc32().__module__.startswith(request.param)
    yield
    monkeypatch.undo()
    crc32.cache_clear()


@pytest.mark.usefixtures("checksum")
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("size", [100_000, 1_500_000])
def test_another_bit_in_the_elements_is_told(tmp_path: Path, share: float, size: int) -> None:
    """Which torch itself would read as another number."""
    torch = pytest.importorskip("torch")
    path = tmp_path / "a.pt"
    torch.save(torch.arange(float(size)), path)
    assert open_tensor(tmp_path, path.name).piece((slice(-1, None),)).tolist() == [size - 1.0]
    content = bytearray(path.read_bytes())
    content[int(len(content) * share)] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(0, 0))  # written to within one tick of the clock
    assert not torch.load(path).equal(torch.arange(float(size)))
    problem = _why(tmp_path, path.name)
    assert problem.code == "unreadable"
    assert "checksum" in str(problem)


def test_plain_torch_files_are_read_without_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(3)
    expected = {}
    for number, (kind, shape) in enumerate(
        itertools.product(
            "float16 float32 float64 int8 int16 int32 int64 uint8".split(),
            [(), (7,), (1, 3), (2, 3, 4, 1, 2)],
        )
    ):
        expected[f"{number}.pt"] = np.array(random.standard_normal(shape) * 50).astype(kind)
        torch.save(torch.from_numpy(expected[f"{number}.pt"]), tmp_path / f"{number}.pt")
    whole = torch.arange(70_000.0)
    for name, view in (
        ("some", whole[5:300]),
        ("last", whole[-1:]),
        ("leaf", torch.ones(3).requires_grad_()),
    ):
        torch.save(view, tmp_path / f"{name}.pt")
        expected[f"{name}.pt"] = view.detach().numpy()
    for name, array in expected.items():
        np.save(tmp_path / f"{name}.npy", array)
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from pathlib import Path\n"
        "import numpy as np\n"
        "from msprobe_builder.metrics.tensor_file import open_tensor\n"
        "folder = Path(sys.argv[1])\n"
        "for path in folder.glob('*.npy'):\n"
        "    name, array = path.stem, np.load(path)\n"
        "    tensor = open_tensor(folder, name)\n"
        "    assert tensor.shape == array.shape, name\n"
        "    assert tensor.content.dtype == array.dtype, name\n"
        "    assert np.array_equal(tensor.content, array), name\n"
        "print(len(list(folder.glob('*.pt'))))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert int(shown) == len(expected)


def test_an_archive_that_was_packed_again_is_not_read_as_if_it_were_not(folder: Path) -> None:
    """torch would map the compressed bytes and take them for elements."""
    torch = pytest.importorskip("torch")
    for name, tensor in {"a.pt": torch.zeros(4000), "b.pt": torch.zeros(4).bfloat16()}.items():
        torch.save(tensor, folder / name)
        with zipfile.ZipFile(folder / name) as archive:
            entries = {one.filename: archive.read(one) for one in archive.infolist()}
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
            for entry, content in entries.items():
                archive.writestr(entry, content)
        refused = _why(folder, name)
        assert (refused.code, "compressed inside" in str(refused)) == ("unreadable", True)


def test_torch_files_that_are_not_plain_are_left_to_torch(tmp_path: Path) -> None:
    """And read as torch reads them."""
    torch = pytest.importorskip("torch")
    x = torch.arange(24.0).reshape(4, 6)
    kept = torch.nn.Parameter(x)
    complex_numbers = torch.complex(x, x + 1)
    for name, tensor in {
        "turned": x.t(),
        "every_other": x[:, ::2],
        "repeated": x[:1].expand(1, 6),
        "parameter": kept,
        "bfloat16": x.bfloat16(),
        "conjugate": complex_numbers.conj(),
        "negative": complex_numbers.conj().imag,
        "bool": x > 3,
        "uint16": x.to(torch.uint16),
        "empty": x[:0],
    }.items():
        path = tmp_path / f"{name}.pt"
        torch.save(tensor, path)
        found = open_tensor(tmp_path, path.name).piece((...,))
        read = torch.load(path, weights_only=True).detach().resolve_conj().resolve_neg()
        assert found.tolist() == read.reshape(-1).tolist(), name


@pytest.mark.parametrize("cut", [1, 4])
def test_a_tensor_longer_than_what_is_stored_is_refused(tmp_path: Path, cut: int) -> None:
    """An archive made by hand, whose checksums are right."""
    torch = pytest.importorskip("torch")
    torch.save(torch.arange(100.0), tmp_path / "whole.pt")
    with (
        zipfile.ZipFile(tmp_path / "whole.pt") as whole,
        zipfile.ZipFile(tmp_path / "a.pt", "w") as archive,
    ):
        for name in whole.namelist():
            content = whole.read(name)
            archive.writestr(name, content[:-cut] if name.endswith("data/0") else content)
    assert _why(tmp_path, "a.pt").code == "unreadable"


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
        # The key of a storage is an address, so that the length of b.pt is another each time.
        at = data.draw(st.integers(0, 2**16)) % (len(content) - 7)
        if data.draw(st.booleans()):
            del content[at:]
        else:
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
