"""Which modules are the model: what holds the modules that are called to be trained."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

import gc
from collections.abc import Iterator, MutableSet, Sequence

import torch
from torch import nn
from torch.optim import Optimizer

from msprobe_collector.intercept.modules import class_name
from msprobe_collector.run.cycle import parameters_of


def is_trained(module: nn.Module, known: MutableSet[nn.Module]) -> bool:
    """Whether a call of ``module`` trains: its mode, gradients, and parameters that take them.

    What has such parameters is added to ``known``, so that they are looked for once.
    """
    if not module.training or not torch.is_grad_enabled():
        return False
    if torch._C._current_graph_task_id() != -1:
        return False  # a part that is computed again in backward
    if module not in known and any(one.requires_grad for one in module.parameters()):
        known.add(module)
    return module in known


def models_around(called: nn.Module) -> tuple[list[nn.Module], list[Optimizer]]:
    """The models of this process and its optimizers, found when ``called`` is called first.

    A model holds what is called, or what an optimizer changes, is in training mode and lies in no
    other such module. A program that calls parts of a larger module one by one, as Lightning does,
    so has one model. The order is that of the optimizers' parameters, what is called first if no
    optimizer has any of it.
    """
    modules, optimizers = _living()
    holders: dict[int, list[nn.Module]] = {}
    owners: dict[int, nn.Module] = {}
    for module in modules:
        for child in module._modules.values():
            if child is not None:
                holders.setdefault(id(child), []).append(module)
        for parameter in module._parameters.values():
            if parameter is not None:
                owners.setdefault(id(parameter), module)
    changed = [one for optimizer in optimizers for one in parameters_of(optimizer)]
    owning = [owners[id(one)] for one in changed if id(one) in owners]
    mine = _root_of(called, holders)
    found = {id(root): root for root in (_root_of(one, holders) for one in owning)}
    if id(mine) not in found:
        found = {id(mine): mine, **found}
    inside = {id(part) for root in found.values() for part in root.modules() if part is not root}
    return [one for one in found.values() if one.training and id(one) not in inside], optimizers


def _root_of(module: nn.Module, holders: dict[int, list[nn.Module]]) -> nn.Module:
    """The topmost module in training mode around ``module``, as long as there is but one.

    What was compiled may be called uncompiled as well, so its compiled form holds nothing.
    """
    seen = {id(module)}
    while True:
        around = {
            id(one): one
            for one in holders.get(id(module), ())
            if one.training and "_orig_mod" not in one._modules
        }
        if len(around) != 1 or not around.keys().isdisjoint(seen):
            return module
        seen |= around.keys()
        (module,) = around.values()


def _living() -> tuple[list[nn.Module], list[Optimizer]]:
    """Every module and optimizer of the process. By their types alone: proxies answer to more."""
    modules, optimizers = [], []
    gc.collect()  # what an earlier training has left is not alive
    for one in gc.get_objects():
        kind = type(one)
        if issubclass(kind, nn.Module):
            modules.append(one)
        elif issubclass(kind, Optimizer) and "param_groups" in one.__dict__:
            optimizers.append(one)
    return modules, optimizers


def describe_models(models: Sequence[nn.Module]) -> str:
    """``Net (1,234 parameters to train)``, several with a comma."""
    return ", ".join(_described(models))


def _described(models: Sequence[nn.Module]) -> Iterator[str]:
    for model in models:
        own = sum(_size(one) for one in model.parameters() if one.requires_grad)
        yield f"{class_name(model)} ({own:,} parameters to train)"


def _size(parameter: torch.Tensor) -> int:
    """Of all of it: a parameter that DeepSpeed has split among ranks is empty until it is used."""
    return int(getattr(parameter, "ds_numel", parameter.numel()))
