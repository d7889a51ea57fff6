"""Names of modules as the user wrote them, whatever wraps the model."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from msprobe_collector.errors import CollectorError

# Attributes in which a wrapper keeps what it wraps; it forwards to it and does nothing else.
# ``module`` is DDP's, DeepSpeed's and Megatron's.
_INNER = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


def named_modules(model: nn.Module | Sequence[nn.Module]) -> dict[nn.Module, str]:
    """Every module by a name without wrappers; that of the model itself is empty.

    Several models, as the stages of a virtual pipeline, begin with their number. CollectorError
    for anything but models.
    """
    models = [model] if isinstance(model, nn.Module) else list(model)
    if not models or not all(isinstance(one, nn.Module) for one in models):
        raise CollectorError("monitor() takes a torch.nn.Module or a list of them.")
    found: dict[nn.Module, str] = {}
    for place, one in enumerate(models):
        begin = "" if len(models) == 1 else str(place)
        _follow(one, begin, found)
    return found


def _follow(module: nn.Module, name: str, found: dict[nn.Module, str]) -> None:
    pending = [(module, name)]
    while pending:
        current, own = pending.pop()
        while (inner := _wrapped(current)) is not None:
            current = inner
        if current in found:
            continue
        found[current] = own
        children = [
            (child, f"{own}.{key}" if own else key) for key, child in current.named_children()
        ]
        pending += reversed(children)


def _wrapped(module: nn.Module) -> nn.Module | None:
    """What a wrapper wraps: its only child, where it has no parameters of its own."""
    children = list(module.named_children())
    if len(children) != 1 or next(module.parameters(recurse=False), None) is not None:
        return None
    name, child = children[0]
    return child if name in _INNER else None


def named_parameters(modules: dict[nn.Module, str]) -> dict[nn.Parameter, str]:
    """Every parameter by its first name."""
    found: dict[nn.Parameter, str] = {}
    for module, name in modules.items():
        for key, parameter in module.named_parameters(recurse=False):
            found.setdefault(parameter, f"{name}.{key}" if name else key)
    return found
