"""``parameters_grad``: the gradient that each backward pass brings to a module's parameters.

The established name has no number and stands for the last pass. Earlier passes of a step
(micro-steps) get the number of the module's backward call appended, so nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set
from functools import partial
from threading import get_ident
from typing import Any, TypeAlias

from msprobe_collector.record.framework import NO_PASS, Framework, Item, Removable

Describe: TypeAlias = Callable[[str, Any, str, Any], "Item | None"]
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
        self._watched: dict[str, dict[str, _Watched]] = {}  # of each module
        self._unread: set[str] = set()  # modules whose gradients of before are not known yet
        self._seen: set[tuple[str, str]] = set()  # by their hooks
        self._found: set[tuple[str, str]] = set()  # when a pass was over
        self._passes: dict[str, int] = {}  # of each module, in this step
        self._arriving: dict[int, dict[str, dict[str, Item]]] = {}  # in each pass
        self._latest: dict[str, tuple[int, dict[str, Item]]] = {}
        self._backward_number: dict[str, int] = {}
        self._kept: dict[str, int] = {}  # modules that are recorded, and the thread that calls them
        self._inside: dict[str, dict[str, None]] = {}  # modules that run as one with the one called

    def watch(self, stem: str, module: Any, called_with: str = "") -> None:
        """Follow the gradients of a module's own parameters; see :meth:`keep`.

        ``called_with`` is the stem of the compiled module around it whose calls are its calls.
        """
        framework = self._framework
        if called_with not in ("", stem):
            self._inside.setdefault(called_with, {})[stem] = None
        for name, parameter in framework.own_parameters(module).items():
            known = self._watched.get(stem, {}).get(name)
            if not framework.may_watch(parameter):
                continue
            if known is not None and known.parameter is parameter:
                continue
            self._watched.setdefault(stem, {})[name] = _Watched(parameter)
            self._unread.add(stem)
            self._hook(stem, name, parameter)

    def _hook(self, stem: str, name: str, parameter: Any) -> None:
        arrive = partial(self._arrive, stem, name)
        handle = self._framework.watch_parameter(parameter, arrive)
        if handle is not None:
            self._handles.append(handle)
            self._watched[stem][name].handle = handle

    def unhook(self, tensors: Sequence[Any]) -> list[tuple[str, str]]:
        """Take the hooks off those of these that are followed; which they are."""
        found = []
        for stem, own in self._watched.items():
            for name, watched in own.items():
                if watched.handle and any(watched.parameter is tensor for tensor in tensors):
                    watched.handle.remove()
                    found.append((stem, name))
        return found

    def hook_again(self, keys: Sequence[tuple[str, str]]) -> None:
        for stem, name in keys:
            self._hook(stem, name, self._watched[stem][name].parameter)

    def keep(self, stem: str) -> None:
        """A call of this module is recorded, so are its parameters."""
        for one in (stem, *self._inside.get(stem, ())):
            self._kept[one] = get_ident()
            if one in self._unread:
                self._unread.discard(one)
                for watched in self._watched.get(one, {}).values():
                    watched.gradient = self._present(watched)

    def keep_uncalled(self) -> None:
        """Compiled code runs that is no module: whatever module it holds is recorded."""
        for stem in list(self._watched.keys() - self._kept.keys()):
            self.keep(stem)

    def _present(self, watched: _Watched) -> tuple[int, int] | None:
        framework = self._framework
        return framework.identity(framework.gradient_of(watched.parameter))

    def _unhooked(self) -> list[tuple[tuple[str, str], _Watched]]:
        """The parameters whose hook has not told of a gradient.

        Another thread may be about to free the gradients of a model that it trains, which nobody
        may look at then: torch would read what is no longer there.
        """
        is_alone = len(set(self._kept.values())) < 2
        return [
            ((stem, name), watched)
            for stem, owner in list(self._kept.items())
            if (is_alone or owner == get_ident()) and stem not in self._unread
            for name, watched in list(self._watched.get(stem, {}).items())
            if (stem, name) not in self._seen
        ]

    def callers(self) -> dict[int, int]:
        """The thread that calls the module of each parameter, by the identity of this."""
        return {
            id(watched.parameter): owner
            for stem, owner in list(self._kept.items())
            for watched in list(self._watched.get(stem, {}).values())
        }

    def note_backward(self, backward_name: str) -> None:
        stem, _, number = backward_name.rpartition(".backward.")
        for one in (stem, *self._inside.get(stem, ())):
            self._backward_number[one] = int(number)

    def _arrive(self, stem: str, name: str, gradient: Any) -> None:
        if stem in self._kept:
            with self._framework.unseen():
                self._seen.add((stem, name))
                watched = self._watched.get(stem, {}).get(name)
                self._take(stem, name, gradient, watched and watched.parameter)

    def _take(self, stem: str, name: str, gradient: Any, parameter: Any = None) -> None:
        """``parameter`` is that whose hook told of the gradient, if one did."""
        # Files of later passes say which pass they belong to: nothing is overwritten.
        number = self._passes.get(stem, 0)
        where = f"{number}.{name}" if number else name
        item = self._describe(f"{stem}.parameters_grad", gradient, where, parameter)
        if item is not None:
            arriving = self._arriving.setdefault(self._framework.current_pass(), {})
            arriving.setdefault(stem, {})[name] = item

    def begin_pass(self) -> None:
        """What is beside the parameters now is not what this pass brings."""
        for _, watched in self._unhooked():
            watched.gradient = self._present(watched)

    def end_pass(self, task: int = NO_PASS, running: Set[int] = frozenset()) -> None:
        """A backward pass is over: its gradients become the latest of their modules.

        Others may be ``running``, around this one or in another thread.

        Sharded parameters take no part in it: a framework sets their ``.grad`` by then. It is
        taken now, before it is clipped or set to zero.
        """
        is_last = running <= {task}
        if is_last and task != NO_PASS:
            self._found.update(self._take_unhooked())
        # Another may have begun since then: it is running before its first gradient arrives.
        arrived = list(self._arriving) if is_last else ()
        passes = [one for one in arrived if one == task or one not in running] or [task]
        for stem, unordered in self._arrived(passes):
            gradients = self._in_order(stem, unordered)
            before = self._latest.pop(stem, None)
            if before is not None:
                self._write(f"{stem}.parameters_grad.{before[0]}", before[1])
            # Of passes whose gradients were put off several may have the same latest call.
            behind = -1 if before is None else before[0]
            number = max(self._backward_number.get(stem, 0), behind + 1)
            self._latest[stem] = (number, gradients)
            self._passes[stem] = self._passes.get(stem, 0) + 1

    def _arrived(self, passes: Sequence[int]) -> list[tuple[str, dict[str, Item]]]:
        """What came to each module, one after the other.

        Passes within another bring parts of one gradient each; a parameter that gets another
        gradient gets that of the next micro-step, as from schedules that put weights off.
        """
        rounds: list[dict[str, dict[str, Item]]] = [{}]
        for task in passes:
            for stem, gradients in self._arriving.pop(task, {}).items():
                if not gradients.keys().isdisjoint(rounds[-1].get(stem, {})):
                    rounds.append({})
                rounds[-1].setdefault(stem, {}).update(gradients)
        return [pair for own in rounds for pair in own.items()]

    def _in_order(self, stem: str, gradients: dict[str, Item]) -> dict[str, Item]:
        """As the module names its parameters, not as the engine reached them."""
        if len(gradients) < 2:
            return gradients
        names = [name for name in self._watched.get(stem, {}) if name in gradients]
        return {**{name: gradients[name] for name in names}, **gradients}

    def settle(self) -> None:
        """Hand out the last pass; take ``.grad`` where a framework set it without any."""
        self.end_pass()
        self._take_unhooked(besides=self._found)
        for stem, gradients in self._arrived(list(self._arriving)):
            latest = self._latest.setdefault(stem, (0, {}))
            latest[1].update(gradients)
        for stem, (_, gradients) in self._latest.items():
            self._write_latest(f"{stem}.parameters_grad", gradients)

    def _take_unhooked(self, besides: Collection[tuple[str, str]] = ()) -> list[tuple[str, str]]:
        """Gradients that changed although no hook told."""
        framework = self._framework
        found = []
        with framework.unseen():
            for key, watched in self._unhooked():
                if key in besides:
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
        self._inside = {}
        self._unread.clear()
        self._seen.clear()
        self._found.clear()

    def end_step(self) -> None:
        self.release()
        self._latest = {}
        self._passes.clear()
        self._backward_number.clear()
        self._kept.clear()


class _Watched:
    """A parameter and the gradient it had when its module was first called."""

    __slots__ = ("gradient", "handle", "parameter")

    def __init__(self, parameter: Any) -> None:
        self.parameter = parameter
        self.handle: Removable | None = None
        self.gradient: tuple[int, int] | None = None
