"""Takes over the backends of ``torch.compile``, so that the graphs that they compile are known."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node

from msprobe_collector.errors import CollectorError
from msprobe_collector.intercept.redirect import Redirect

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_ASKED_FOR = ("compiler_name", "get_compiler_config", "reset")  # what torch.compile asks backends
_OLDEST = (2, 6)  # whose graphs take parameters as inputs and name the modules of calls


@dataclass(frozen=True)
class Region:
    """A graph that a backend has compiled."""

    number: int  # among those of this process
    graph: GraphModule  # as torch.compile has captured it
    run: Callable[..., Any]  # what the backend made of it
    backend: Any  # as it was given

    @property
    def calls(self) -> list[Node]:
        """The calls in it, in the order in which they run."""
        kinds = ("call_function", "call_method", "call_module")
        return [node for node in self.graph.graph.nodes if node.op in kinds]

    @property
    def place(self) -> str:
        """Where it begins in the program: ``forward, model.py:41``."""
        frames = next((found for node in self.calls if (found := frames_of(node))), None)
        if frames is None:
            return "unknown place"
        file, line, name = frames[0]
        return f"{name}, {Path(file).name}:{line}"


Enter = Callable[[Region, "tuple[Any, ...]"], Any]


class Backends:
    """Calls of what is compiled from here on go through ``enter``."""

    def __init__(self, enter: Enter) -> None:
        self._enter = enter
        self._count = 0
        self._redirect: Redirect | None = None

    def install(self) -> None:
        """CollectorError if this torch keeps too little of what it compiles."""
        version = tuple(int(part) for part in torch.__version__.split(".")[:2])
        if version < _OLDEST:
            raise CollectorError(
                f"torch {torch.__version__} does not tell which modules are in a compiled region;"
                " that takes 2.6 or newer."
            )
        from torch._dynamo import eval_frame

        self._redirect = Redirect(eval_frame.get_compiler_fn, self._wrapped)  # type: ignore[arg-type]
        self._redirect.install()

    def remove(self) -> None:
        """What is compiled already stays as it is."""
        if self._redirect is not None:
            self._redirect.remove()

    def _wrapped(self, original: Callable[..., Any], backend: Any) -> Any:
        from torch._dynamo.backends.registry import lookup_backend

        if backend is None:
            return original(backend)
        own = lookup_backend(backend)

        # A plain function: Dynamo asks it for attributes where no Python code may run.
        def compile_region(graph: GraphModule, inputs: Any, **options: Any) -> Any:
            kept = GraphModule(graph, copy.deepcopy(graph.graph))  # backends change what they get
            return self._region(kept, own(graph, inputs, **options), backend)

        found: Any = compile_region
        if isinstance(backend, str):
            found.compiler_name = backend
        for name in _ASKED_FOR:
            if hasattr(own, name):
                setattr(found, name, getattr(own, name))
        return original(found)

    def _region(self, graph: GraphModule, run: Callable[..., Any], backend: Any) -> Any:
        """The function that stands for a compiled graph."""
        region = Region(self._count, graph, run, backend)
        self._count += 1

        def run_region(*args: Any) -> Any:
            return self._enter(region, args)

        return run_region


def frames_of(node: Node) -> list[tuple[str, int, str]]:
    """File, line and function of the program around a call, outermost first."""
    found = _FRAME.findall(node.meta.get("stack_trace") or "")
    return [(file, int(line), name) for file, line, name in found]
