"""Checksums by exclusive or: what a plain loop over the bytes gives, on either way to make them."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

from functools import reduce
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from msprobe_collector.record.checksums import joined_by_torch, words_joined
from msprobe_collector.record.words import joined
from tests.collector.recording import record


def _by_hand(content: bytes) -> int:
    words = (content[place : place + 8] for place in range(0, len(content), 8))
    return reduce(int.__xor__, (int.from_bytes(word, "little") for word in words), 0)


@given(st.binary(max_size=200))
def test_words_of_any_bytes(content: bytes) -> None:
    expected = _by_hand(content)
    assert joined(content) == expected
    tensor = torch.tensor(list(content), dtype=torch.uint8)
    assert words_joined(tensor) == f"0x{expected:016x}"
    assert joined_by_torch(tensor) % 2**64 == expected


@pytest.mark.parametrize("dtype", [torch.bool, torch.int16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (2, 3, 7)])
def test_words_of_tensors_that_lie_otherwise(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    whole = (torch.randn(shape) * 9).to(dtype)
    for tensor in (whole, whole.mT if len(shape) > 1 else whole, whole.flatten()[1:]):
        content = bytes(tensor.contiguous().flatten().view(torch.uint8).tolist())
        assert words_joined(tensor) == f"0x{_by_hand(content):016x}"
        assert joined_by_torch(tensor) % 2**64 == _by_hand(content)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_dump_holds_them_beside_statistics(tmp_path: Path, device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs CUDA")
    model = nn.Sequential(nn.Linear(3, 2)).to(device)
    data = torch.arange(6.0, device=device).reshape(2, 3)

    def train() -> None:
        model(data).sum().backward()
        data.mul_(2)  # the same memory, other words
        torch.relu(data)

    dump = record(tmp_path, train, model, statistics={"summary_mode": "xor"})
    first = dump.data["Functional.linear.0.forward"]["input_args"][0]
    last = dump.data["Torch.relu.0.forward"]["input_args"][0]
    for item, tensor in ((first, data / 2), (last, data)):
        assert item["md5"] == f"0x{_by_hand(tensor.cpu().numpy().tobytes()):016x}"
        assert item["Max"] == float(tensor.max())
    assert first["md5"] != last["md5"]
