"""Checksums of tensors: a CRC-32 of their bytes, or an exclusive or of their words."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import torch

from msprobe_builder.base.crc import crc32
from msprobe_collector.record.words import WORD, hexadecimal, joined
from msprobe_collector.write.host_bytes import host_bytes


def checksum(tensor: torch.Tensor) -> str:
    """CRC-32 of a plain tensor's bytes as eight hexadecimal digits."""
    here = tensor if tensor.is_cpu else tensor.detach().cpu()
    _owner, content = host_bytes(here)
    return f"{crc32()(content, 0):08x}"


def words_joined(tensor: torch.Tensor) -> str:
    """Exclusive or of the words of a plain tensor's bytes.

    An accelerator joins them itself, and one number is copied; where torch cannot see the bytes of
    a type, all of them are.
    """
    if not tensor.is_cpu:
        try:
            return hexadecimal(joined_by_torch(tensor))
        except (RuntimeError, NotImplementedError):
            tensor = tensor.detach().cpu()
    _owner, content = host_bytes(tensor)
    return hexadecimal(joined(content))


def joined_by_torch(tensor: torch.Tensor) -> int:
    """The same where the tensor lies, halving what is left until it is one word."""
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    rows = plain.view(-1).view(torch.uint8)
    if rows.numel() % WORD or rows.storage_offset() % WORD:
        filled = torch.zeros(-(-rows.numel() // WORD) * WORD, dtype=torch.uint8, device=rows.device)
        filled[: rows.numel()] = rows
        rows = filled
    words = rows.view(torch.int64)
    if not words.numel():
        return 0
    while words.numel() > 1:
        half = words.numel() // 2
        pairs = words[:half] ^ words[half : 2 * half]
        if words.numel() % 2:
            pairs[0] ^= words[-1]
        words = pairs
    return int(words.item())
