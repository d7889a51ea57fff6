"""Module calls: hooks on every named module between start and stop."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from msprobe_collector.intercept.apis import CallMode, put_on, remove_mode
from msprobe_collector.intercept.fused_modules import Surrounded, modules_without_hooks
from msprobe_collector.intercept.staged import is_staged
from msprobe_collector.record.module_calls import close_module, enter_module, leave_module
from msprobe_collector.record.pytorch import is_lazy
from msprobe_collector.record.session import Session
from msprobe_collector.record.uncompiled import is_compiled, uncompiled_name
from msprobe_collector.unseen import unseen

Named: TypeAlias = "tuple[str, str, nn.Module]"  # stem, path and the module itself


class ModuleHooks:
    """Installs the hooks of all modules of the given models."""

    def __init__(self, session: Session, mode: Callable[[], CallMode]) -> None:
        self.session = session
        self.mode = mode  # the one of the present window
        self.named: dict[int, Named] = {}  # by identity, of the present window
        self.lazy: set[str] = set()  # modules whose parameters have no shape yet
        self._handles: list[RemovableHandle] = []
        self._compiled: list[tuple[nn.Module, Any]] = []
        self.surrounded = Surrounded()

    def install(self, models: Sequence[tuple[str, nn.Module]]) -> None:
        without_hooks = modules_without_hooks(model for _, model in models)
        for prefix, model in models:
            for path, module in named_calls(prefix, model):
                self.hook(path, module, module in without_hooks)

    def hook(self, path: str, module: nn.Module, without_hooks: bool = False) -> None:
        """Record the calls of one module, which stands at ``path``."""
        stem = f"{path}.{class_name(module)}"
        before = ModuleHook(_enter, self, stem, path)
        after = ModuleHook(_leave, self, stem, path)
        if getattr(module, "_compiled_call_impl", None) is not None:
            self._surround(module, before, after)
        elif without_hooks:
            self.surrounded.follow(module, before, after)
        else:
            self._handles += [
                module.register_forward_pre_hook(before, with_kwargs=True),
                module.register_forward_hook(
                    after, prepend=True, with_kwargs=True, always_call=True
                ),
            ]
        if self.session.collects_gradients:
            if any(map(is_lazy, module.parameters(recurse=False))):
                self.lazy.add(stem)
            for inner_stem, inner in _called_with(path, module):
                self.named[id(inner)] = (inner_stem, inner_stem.rpartition(".")[0], inner)
                self.session.parameters.watch(inner_stem, inner, called_with=stem)

    def _surround(self, module: nn.Module, before: ModuleHook, after: ModuleHook) -> None:
        """Hooks of a module that was compiled in place would run inside compiled code."""
        original: Any = module._compiled_call_impl
        self._compiled.append((module, original))

        def call(*args: Any, **kwargs: Any) -> Any:
            before(module, args, kwargs)
            result = None
            try:
                result = original(*args, **kwargs)
                return result
            finally:
                after(module, args, kwargs, result)

        module._compiled_call_impl = call

    def remove(self) -> None:
        self.named.clear()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for module, original in self._compiled:
            module._compiled_call_impl = original
        self._compiled = []
        self.surrounded.remove()


class ModuleHook:
    """A hook that a copied or pickled module does not take along."""

    __slots__ = ("_run", "hooks", "path", "stem")

    def __init__(self, run: Callable[..., None], hooks: ModuleHooks, stem: str, path: str) -> None:
        self._run = run
        self.hooks = hooks
        self.stem = stem
        self.path = path

    def __call__(self, *arguments: Any) -> None:
        # First and alone: the compiler of older torch gives up at anything else that it meets here.
        if torch.compiler.is_compiling():
            return
        session = self.hooks.session
        if session.active and not session.threads.hides_calls and not is_staged():
            try:
                with unseen():
                    self._run(self, *arguments)
            except Exception as error:
                session.report(self.stem, error)

    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., None]:
        return no_hook

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (_make_no_hook, ())


def no_hook(*_arguments: Any) -> None:
    """What a copy of a module has in place of our hook."""


def _make_no_hook() -> Callable[..., None]:
    return no_hook


def named_calls(prefix: str, model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every module to hook with its path; a model without children stands for itself."""
    found = False
    seen: set[nn.Module] = set()
    for path, module in _walk(prefix, model, seen):
        if module is not model and not isinstance(module, torch.jit.ScriptModule):
            found = True
            yield path, module
    if not found or is_compiled(model):
        yield prefix, model


def _walk(path: str, module: nn.Module, seen: set[nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    if module in seen:
        return
    seen.add(module)
    if type(module).__name__ != "FullyShardedDataParallel":
        yield path, module
    if is_compiled(module):
        return  # what is inside runs as one compiled call
    for name, child in module.named_children():
        yield from _walk(f"{path}.{name}", child, seen)


def _called_with(path: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """``module`` and, where it is compiled, all inside it: none of them is called by itself."""
    if not is_compiled(module):
        yield f"{path}.{class_name(module)}", module
        return
    for name, inner in module.named_modules(prefix=path):
        yield f"{uncompiled_name(name)}.{class_name(inner)}", inner


def _parameters_called_with(module: nn.Module, together: bool) -> dict[str, nn.Parameter]:
    """The parameters of a call, those of modules inside ``together`` with its own, by name."""
    named = module.named_parameters(recurse=together)
    return {uncompiled_name(name): parameter for name, parameter in named}


def class_name(module: nn.Module) -> str:
    """The class that the user wrote: compiling and sharding put another in its place."""
    kind: Any = type(getattr(module, "_orig_mod", module))
    if getattr(module, "cls_to_become", None) is not None:
        kind = module.cls_to_become  # a lazy module, once its shape is known
    if any(base.__name__ == "FSDPModule" for base in kind.__bases__):
        kind = next(base for base in kind.__bases__ if base.__name__ != "FSDPModule")
    return str(kind.__name__)


def _enter(hook: ModuleHook, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
    session = hook.hooks.session
    threads = session.threads
    if not threads.sees_calls:
        # A thread of the user's own: look into it while this module runs.
        put_on(hook.hooks.mode())
        threads.sees_calls = True
        threads.entered_by = module
    enter_module(session, hook.stem, hook.path, module, args, kwargs, sys._getframe(2))


def _leave(
    hook: ModuleHook, module: nn.Module, _args: Any, _kwargs: dict[str, Any], result: Any
) -> None:
    session = hook.hooks.session
    threads = session.threads
    opened = close_module(session, module)
    if threads.entered_by is module and not threads.modules:
        remove_mode(hook.hooks.mode())
        threads.sees_calls = False
        threads.entered_by = None
    if hook.stem in hook.hooks.lazy and result is not None:
        hook.hooks.lazy.remove(hook.stem)
        session.parameters.watch(hook.stem, module)
    together = is_compiled(module) and not session.config.inside_compiled
    leave_module(session, opened, result, _parameters_called_with(module, together))
