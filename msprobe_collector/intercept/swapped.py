"""``torch.utils.swap_tensors`` gives a tensor the content of another, unless somebody watches it.

Modules are converted that way where their parameters are subclasses of tensors or where the user
asks for it. It refuses tensors with weak references, so ours are let go.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from msprobe_collector.intercept.redirect import Redirect
from msprobe_collector.record.session import Session


class SwappedTensors:
    """Lets tensors go before they are swapped, between install and remove."""

    def __init__(self, session: Session) -> None:
        self._session = session
        function: Any = torch.utils.swap_tensors
        self._redirect = Redirect(function, self._swap, is_compiling=torch.compiler.is_compiling)

    def install(self) -> None:
        self._redirect.install()

    def remove(self) -> None:
        self._redirect.remove()

    def _swap(self, original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        tensors = [one for one in (*given, *named.values()) if isinstance(one, torch.Tensor)]
        parameters = self._session.parameters
        with torch._C.DisableTorchFunction():
            for tensor in tensors:
                self._session.items.let_go(tensor)
                if self._session.flow is not None:
                    self._session.flow.let_go(tensor)
            followed = parameters.unhook(tensors)
            for tensor in tensors:
                if not tensor._backward_hooks:  # or torch takes the list of hooks for installed
                    tensor._backward_hooks = None
            try:
                return original(*given, **named)
            finally:
                parameters.hook_again(followed)
