"""Where a step of the training ends, told from the calls of its optimizers."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

import weakref
from collections.abc import Iterable

import torch
from torch.optim import Optimizer


class Cycle:
    """A step is over when the model is called again after the optimizers have stepped.

    So several forward passes before an optimizer steps are one step, and so are optimizers that
    step one after the other. Where the model is called between two optimizers, as generators and
    discriminators do, the step lasts until each of those that were there from the beginning, and
    have parameters of their own, has stepped. One that lets another step twice meanwhile is not
    waited for any more.
    """

    def __init__(self) -> None:
        self._stepped: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._awaited: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self.has_begun = False  # to step: it ends with the next call of the model
        self._was_asked = False  # the model was called after the first of them had stepped
        self.names: dict[str, None] = {}  # of the optimizers that have stepped

    def expect(self, optimizers: Iterable[Optimizer]) -> None:
        """The optimizers that are there when the model is called for the first time."""
        self._awaited.update(optimizers)

    def stepped(self, optimizer: Optimizer, in_backward: bool) -> None:
        """An optimizer has stepped, or a scaler of the loss has left its step out."""
        if in_backward:  # one for each parameter; those without a gradient never step
            self._awaited.clear()
        elif optimizer in self._stepped and self._was_asked:
            self._awaited &= self._stepped
        self._stepped.add(optimizer)
        self.has_begun = True
        self._awaited.add(optimizer)
        self.names.setdefault(type(optimizer).__name__)

    def has_stepped(self, optimizer: Optimizer) -> bool:
        """Whether it has in this step."""
        return optimizer in self._stepped

    def is_over(self) -> bool:
        """Asked when the model is called."""
        if not self.has_begun:
            return False
        self._was_asked = True
        waiting = [one for one in self._awaited if one not in self._stepped]
        if not waiting:
            return True
        taken = {id(one) for optimizer in self._stepped for one in parameters_of(optimizer)}
        return not any(_has_others(optimizer, taken) for optimizer in waiting)

    def begin(self) -> None:
        """The next step begins."""
        self._stepped.clear()
        self.has_begun = self._was_asked = False


def parameters_of(optimizer: Optimizer) -> list[torch.Tensor]:
    """The tensors that it changes."""
    return [one for group in optimizer.param_groups for one in group["params"]]


def _has_others(optimizer: Optimizer, taken: set[int]) -> bool:
    """Whether it trains something, and nothing that another has changed in this step."""
    own = [one for one in parameters_of(optimizer) if one.requires_grad]
    return bool(own) and not any(id(one) in taken for one in own)
