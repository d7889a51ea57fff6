"""The bytes of a torch tensor."""

from __future__ import annotations

import ctypes

import torch


def host_bytes(tensor: torch.Tensor) -> tuple[torch.Tensor, memoryview]:
    """The bytes of a plain tensor in the host's memory, row by row, and the tensor they are of.

    They are good while that tensor lives. Call inside :func:`unseen`.
    """
    plain = tensor
    if plain.is_conj() or plain.is_neg() or not plain.is_contiguous():
        plain = plain.detach().resolve_conj().resolve_neg().contiguous()
    size = plain.numel() * plain.itemsize
    if not size:
        return plain, memoryview(b"")
    # Through the address: NumPy lacks some types and takes several calls.
    content = (ctypes.c_ubyte * size).from_address(plain.data_ptr())
    return plain, memoryview(content).cast("B")
