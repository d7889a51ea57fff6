"""Code that is compiled, traced, exported or captured computes no numbers: nothing looks in."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import sys
import types

import torch

from msprobe_collector.record.statistics import is_capturing

_FAKE = frozenset({"FakeTensorMode", "ProxyTorchDispatchMode", "FunctionalTensorMode"})


def is_staged() -> bool:
    """Whether the calls of this thread build a program instead of running one."""
    if torch.compiler.is_compiling() or torch._C._is_tracing():
        return True
    if torch._C._len_torch_dispatch_stack() and _computes_with_shapes():
        return True
    if is_capturing():
        return True
    symbolic = sys.modules.get("torch.fx._symbolic_trace")
    return symbolic is not None and bool(getattr(symbolic, "_is_fx_tracing_flag", False))


def _computes_with_shapes() -> bool:
    """Distributed tensors and exporters find out shapes with tensors that hold nothing."""
    modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    return any(type(mode).__name__ in _FAKE for mode in modes)


def leave_alone(code: types.CodeType) -> None:
    """Have Dynamo not compile ``code`` where torch, before 2.5, offers to skip it.

    There it fails on methods of C classes and on frames of the interpreter; since then it does not.
    """
    dynamo = getattr(torch._C._dynamo, "eval_frame", None)
    skip_code = getattr(dynamo, "skip_code", None)
    if skip_code is not None:
        skip_code(code)
