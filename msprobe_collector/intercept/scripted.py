"""``torch.jit.script`` compiles the hooks of a module, too: meanwhile ours are put aside."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from msprobe_collector.intercept.modules import ModuleHook, ModuleHooks
from msprobe_collector.intercept.redirect import Redirect


class ScriptedModules:
    """Shows modules to ``torch.jit.script`` without hooks, between install and remove."""

    def __init__(self, hooks: ModuleHooks) -> None:
        self._hooks = hooks
        self._redirect: Redirect | None = None
        function: Any = getattr(torch.jit._recursive, "create_script_module", None)
        if isinstance(function, types.FunctionType):
            self._redirect = Redirect(
                function, self._create, is_compiling=torch.compiler.is_compiling
            )

    def install(self) -> None:
        if self._redirect is not None:
            self._redirect.install()

    def remove(self) -> None:
        if self._redirect is not None:
            self._redirect.remove()

    def _create(
        self, original: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any
    ) -> Any:
        with self._hooks.surrounded.put_aside(module), _without_hooks(module):
            return original(module, *args, **kwargs)


@contextmanager
def _without_hooks(model: nn.Module) -> Iterator[None]:
    """``model`` with the hooks of others only; ours return to their places."""
    changed: list[tuple[Any, dict[int, Any]]] = []
    for module in model.modules():
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            if any(isinstance(hook, ModuleHook) for hook in hooks.values()):
                changed.append((hooks, dict(hooks)))
                for key in [k for k, hook in hooks.items() if isinstance(hook, ModuleHook)]:
                    del hooks[key]
    try:
        yield
    finally:
        for hooks, before in changed:
            hooks.clear()
            hooks.update(before)
