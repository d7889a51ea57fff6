"""``parameters_grad``: the gradient that each backward pass brings to a module's parameters.

The established name has no number and stands for the last pass. Earlier passes of a step
(micro-steps) get the number of the module's backward call appended, so nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeAlias

from msprobe_collector.record.framework import Framework, Item, Removable

Describe: TypeAlias = Callable[[str, Any, str], "Item | None"]
Write: TypeAlias = Callable[[str, "dict[str, Item]"], None]


class ParameterGradients:
    """Hooks on parameters from the first start of a step to its end."""

    def __init__(
        self, framework: Framework, describe: Describe, write: Write, write_latest: Write
    ) -> None:
        self._framework = framework
        self._describe = describe
        self._write = write
        self._write_latest = write_latest
        self._handles: list[Removable] = []
        self._watched: dict[tuple[str, str], _Watched] = {}
        self._seen: set[tuple[str, str]] = set()  # by their hooks
        self._found: set[tuple[str, str]] = set()  # when a pass was over
        self._passes: dict[str, int] = {}  # of each module, in this step
        self._arriving: dict[str, dict[str, Item]] = {}
        self._latest: dict[str, tuple[int, dict[str, Item]]] = {}
        self._backward_number: dict[str, int] = {}
        self._kept: set[str] = set()

    def watch(self, stem: str, module: Any) -> None:
        framework = self._framework
        for name, parameter in framework.own_parameters(module).items():
            known = self._watched.get((stem, name))
            if not framework.may_watch(parameter):
                continue
            if known is not None and known.parameter is parameter:
                continue
            watched = _Watched(parameter, framework.identity(framework.gradient_of(parameter)))
            self._watched[stem, name] = watched
            handle = framework.watch_parameter(parameter, partial(self._arrive, stem, name))
            if handle is not None:
                self._handles.append(handle)

    def keep(self, stem: str) -> None:
        """A call of this module is recorded, so are its parameters."""
        self._kept.add(stem)

    def note_backward(self, backward_name: str) -> None:
        stem, _, number = backward_name.rpartition(".backward.")
        self._backward_number[stem] = int(number)

    def _arrive(self, stem: str, name: str, gradient: Any) -> None:
        if stem in self._kept:
            with self._framework.unseen():
                self._seen.add((stem, name))
                self._take(stem, name, gradient)

    def _take(self, stem: str, name: str, gradient: Any) -> None:
        # Files of later passes say which pass they belong to: nothing is overwritten.
        number = self._passes.get(stem, 0)
        where = f"{number}.{name}" if number else name
        item = self._describe(f"{stem}.parameters_grad", gradient, where)
        if item is not None:
            self._arriving.setdefault(stem, {})[name] = item

    def begin_pass(self) -> None:
        """What is beside the parameters now is not what this pass brings."""
        framework = self._framework
        for key, watched in self._watched.items():
            if key not in self._seen:
                watched.gradient = framework.identity(framework.gradient_of(watched.parameter))

    def end_pass(self, is_outermost: bool = False) -> None:
        """A backward pass is over: its gradients become the latest of their modules.

        Sharded parameters take no part in it: a framework sets their ``.grad`` by then. It is
        taken now, before it is clipped or set to zero.
        """
        if is_outermost:
            self._found.update(self._take_unhooked())
        arrived, self._arriving = self._arriving, {}
        for stem, unordered in arrived.items():
            gradients = self._in_order(stem, unordered)
            before = self._latest.pop(stem, None)
            if before is not None:
                self._write(f"{stem}.parameters_grad.{before[0]}", before[1])
            self._latest[stem] = (self._backward_number.get(stem, 0), gradients)
            self._passes[stem] = self._passes.get(stem, 0) + 1

    def _in_order(self, stem: str, gradients: dict[str, Item]) -> dict[str, Item]:
        """As the module names its parameters, not as the engine reached them."""
        if len(gradients) < 2:
            return gradients
        names = [name for owner, name in self._watched if owner == stem and name in gradients]
        return {**{name: gradients[name] for name in names}, **gradients}

    def settle(self) -> None:
        """Hand out the last pass; take ``.grad`` where a framework set it without any."""
        self.end_pass()
        self._take_unhooked(besides=self._found)
        for stem, gradients in self._arriving.items():
            latest = self._latest.setdefault(stem, (0, {}))
            latest[1].update(gradients)
        self._arriving = {}
        for stem, (_, gradients) in self._latest.items():
            self._write_latest(f"{stem}.parameters_grad", gradients)

    def _take_unhooked(self, besides: Collection[tuple[str, str]] = ()) -> list[tuple[str, str]]:
        """Gradients that changed although no hook told."""
        framework = self._framework
        found = []
        with framework.unseen():
            for key, watched in self._watched.items():
                if key in self._seen or key in besides or key[0] not in self._kept:
                    continue
                gradient = framework.gradient_of(watched.parameter)
                identity = framework.identity(gradient)
                if gradient is not None and identity != watched.gradient:
                    watched.gradient = identity
                    self._take(*key, gradient)
                    found.append(key)
        return found

    def release(self) -> None:
        """Take the hooks off; what was recorded is kept until the step is over."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._watched = {}
        self._seen.clear()
        self._found.clear()

    def end_step(self) -> None:
        self.release()
        self._latest = {}
        self._passes.clear()
        self._backward_number.clear()
        self._kept.clear()


class _Watched:
    """A parameter and the gradient it had when watching began."""

    __slots__ = ("gradient", "parameter")

    def __init__(self, parameter: Any, gradient: tuple[int, int] | None) -> None:
        self.parameter = parameter
        self.gradient = gradient
