"""Modules that run as compiled code, and what they are called without it."""

from __future__ import annotations

from torch import nn


def is_compiled(module: nn.Module) -> bool:
    """Whether calling ``module`` runs compiled code."""
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None


def uncompiled_name(name: str) -> str:
    """The name of a module or parameter as if nothing around it were compiled."""
    return name.replace("._orig_mod", "").removeprefix("_orig_mod.")
