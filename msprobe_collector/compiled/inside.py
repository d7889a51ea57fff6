"""Runs a compiled region call by call, so that its calls and modules are recorded."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from torch import nn
from torch.fx import Interpreter, Node

from msprobe_collector.compiled.backends import Backends, Region, frames_of
from msprobe_collector.intercept.compiled import CompiledRegions
from msprobe_collector.record.calls import OpenModule
from msprobe_collector.record.module_calls import close_module, enter_module, leave_module
from msprobe_collector.unseen import unseen


@cache
def look_inside() -> None:
    """Have what is compiled from here on run call by call while it is recorded.

    CollectorError if this torch cannot.
    """
    Backends(enter_inside).install()


def enter_inside(region: Region, args: tuple[Any, ...]) -> Any:
    """Run a region: call by call while the recorder looks, else as it was compiled."""
    regions = CompiledRegions.current
    if regions is None or not regions.looks:
        return region.run(*args)
    with regions.seen():
        return _CallByCall(region, regions).run(*args)


@dataclass(eq=False)
class _Group:
    """Consecutive calls of a graph that one call of a module makes."""

    key: str  # of the call of the module
    path: str  # of the module, as the program reaches it
    kind: type[nn.Module]
    nodes: dict[Node, None] = field(default_factory=dict)
    opened: OpenModule | None = None
    module: nn.Module | None = None

    def inputs(self) -> list[Node]:
        """What the calls are given that none of them made, in the order of its use."""
        given = (one for node in self.nodes for one in node.all_input_nodes)
        return list(dict.fromkeys(one for one in given if one not in self.nodes))

    def outputs(self) -> list[Node]:
        """What the calls made that others use."""
        return [node for node in self.nodes if any(one not in self.nodes for one in node.users)]


class _CallByCall(Interpreter):
    """The calls of a graph as eager torch makes them, in the modules that they come from."""

    def __init__(self, region: Region, regions: CompiledRegions) -> None:
        super().__init__(region.graph, garbage_collect_values=False)
        self._regions = regions
        self._session = regions.session
        self._open: list[_Group] = []
        self._ways = list(_groups(region.calls))
        self._position = 0
        modules = self._session.threads.modules
        self._around: OpenModule | None = modules[-1] if modules else None

    def run_node(self, n: Node) -> Any:
        if n.op in ("placeholder", "get_attr"):
            return super().run_node(n)
        if n.op == "output":
            self._leave_until([])
            return super().run_node(n)
        way = self._ways[self._position]
        self._position += 1
        self._leave_until(way)
        for group in way[len(self._open) :]:
            self._enter(group)
        run = super().run_node
        return _placed([_code_at(*frame) for frame in frames_of(n)], lambda: run(n))

    def _leave_until(self, way: list[_Group]) -> None:
        while self._open and (len(self._open) > len(way) or self._open[-1] not in way):
            self._leave(self._open.pop())

    def _enter(self, group: _Group) -> None:
        self._open.append(group)
        found = self._resolved(group)
        if found is None:
            return
        stem, path, module = found
        group.module = module
        own = {id(one) for one in (*module.parameters(), *module.buffers())}
        given = [self.env[node] for node in group.inputs() if node in self.env]
        args = tuple(one for one in given if id(one) not in own)
        with unseen():
            enter_module(self._session, stem, path, module, args, {}, sys._getframe())

    def _leave(self, group: _Group) -> None:
        module = group.module
        if module is None:
            return
        results = tuple(self.env[node] for node in group.outputs() if node in self.env)
        result = results[0] if len(results) == 1 else results
        with unseen():
            opened = close_module(self._session, module)
            leave_module(
                self._session, opened, result, dict(module.named_parameters(recurse=False))
            )

    def _resolved(self, group: _Group) -> tuple[str, str, nn.Module] | None:
        """Stem, path and module of a group; one graph serves all modules that are alike."""
        _, _, below = group.path.partition("]")
        if self._around is not None:
            owner: Any = self._around.owner
            try:
                found = getattr(owner, "_orig_mod", owner).get_submodule(below.removeprefix("."))
            except AttributeError:
                found = None
            if type(found) is group.kind and below:
                path = f"{self._around.call.path}{below}"
                return f"{path}.{group.kind.__name__}", path, found
        return self._regions.module_of(int(group.key.partition("@")[0]))


def _groups(calls: list[Node]) -> Iterator[list[_Group]]:
    """The calls of modules around each call, outermost first."""
    way: list[_Group] = []
    for node in calls:
        stack: dict[str, tuple[str, Any]] = node.meta.get("nn_module_stack") or {}
        kept = 0
        for group, key in zip(way, stack, strict=False):
            if group.key != key:
                break
            kept += 1
        added = [_Group(key, path, kind) for key, (path, kind) in list(stack.items())[kept:]]
        way = [*way[:kept], *added]
        for group in way:
            group.nodes[node] = None
        yield way


def _placed(codes: list[CodeType], run: Callable[[], Any]) -> Any:
    """Call ``run`` from below frames of the program."""
    for code in reversed(codes):
        run = FunctionType(code, {}, None, None, _cell(run))
    return run()


def _cell(value: Any) -> Any:
    return (lambda: value).__closure__


def _code_at(file: str, line: int, name: str) -> CodeType:
    return _PLACE.replace(co_filename=file, co_firstlineno=line, co_name=name)


def _place_of(run: Callable[[], Any]) -> CodeType:
    return (lambda: run()).__code__


_PLACE = _place_of(int)
