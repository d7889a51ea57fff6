"""Small models: drawn by hypothesis or written down, rendered as the dump of a forward pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from msprobe_builder.base.codes import Reason
from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.options import DEFAULT_OPTIONS, BuildOptions
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.read import read_dump
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.facts.wording import tell
from msprobe_builder.graph.parameter_table import order_parameters
from msprobe_builder.graph.side import Side
from msprobe_builder.graph.tree import build_tree
from msprobe_builder.match.choose import match_nodes
from msprobe_builder.match.matching import Matching


@dataclass(frozen=True)
class Api:
    """A call; ``sizes`` are the shapes of its inputs, None is a number."""

    stem: str
    sizes: tuple[int | None, ...] = (4,)


@dataclass(frozen=True)
class Module:
    """A module: layer name, class and what it runs."""

    layer: str
    name: str
    inside: tuple[Module | Api, ...] = ()
    sizes: tuple[int | None, ...] = (4,)


Model = tuple[Module | Api, ...]


@dataclass
class _Recorder:
    construct: dict[str, str | None] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)

    def run(self, parts: Iterable[Module | Api], path: str, parent: str | None) -> None:
        for part in parts:
            if isinstance(part, Api):
                name = f"{part.stem}.{self._call(part.stem)}.forward"
            else:
                stem = f"{path}.{part.layer}.{part.name}"
                name = f"{stem}.forward.{self._call(stem)}"
            self.construct[name] = parent
            self.data[name] = {
                "input_args": [_value(size) for size in part.sizes],
                "input_kwargs": {},
                "output": [_value(4)],
            }
            if isinstance(part, Module):
                self.run(part.inside, f"{path}.{part.layer}", name)

    def _call(self, stem: str) -> int:
        self.calls[stem] += 1
        return self.calls[stem] - 1


def _value(size: int | None) -> dict[str, Any]:
    if size is None:
        return {"type": "int", "value": 1}
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [size], "Norm": 1.0}


def dump_of(model: Model, *, prefix: str = "Module", structure: bool = False) -> InMemoryDump:
    """The dump of one forward pass."""
    recorder = _Recorder()
    # Without any call there is nothing to show, which is an error of its own.
    recorder.run(model or (Api("Torch.start"),), prefix, None)
    data = {} if structure else recorder.data
    return InMemoryDump({"task": "statistics", "data": data}, recorder.construct)


def side_of(dump: InMemoryDump | Path, texts: Texts) -> Side:
    """Read a dump."""
    content = read_dump(dump, texts)
    tree, _ = build_tree(content)
    return Side(content, tree, order_parameters(tree, content.parameters))


@dataclass(frozen=True)
class Result:
    """A matching by names."""

    npu: Side
    bench: Side
    matching: Matching
    diagnostics: list[Diagnostic]

    def pairs(self) -> dict[str, str]:
        """Matched nodes but the root."""
        partner = self.matching.npu
        return {
            name: self.bench.tree.names[partner[node]]
            for node, name in enumerate(self.npu.tree.names)
            if node and partner[node] >= 0
        }

    def why(self, name: str, *, bench: bool = False) -> tuple[str, str | None, str | None]:
        """Reason, candidate and detail of an unmatched node."""
        own, other = (self.bench, self.npu) if bench else (self.npu, self.bench)
        unmatched = self.matching.bench_unmatched if bench else self.matching.npu_unmatched
        place = unmatched.node.tolist().index(own.tree.names.index(name))
        candidate, detail = unmatched.candidate[place], unmatched.detail[place]
        return (
            Reason(unmatched.reason[place]).name,
            other.tree.names[candidate] if candidate >= 0 else None,
            None if detail is None else tell(detail),
        )


def match(
    npu: InMemoryDump | Path,
    bench: InMemoryDump | Path,
    options: BuildOptions = DEFAULT_OPTIONS,
    *,
    step: int = 0,
    rank: int = 0,
) -> Result:
    """Read and match two dumps."""
    texts = Texts()
    left, right = side_of(npu, texts), side_of(bench, texts)
    matching, found = match_nodes(left, right, options, texts, step=step, rank=rank)
    return Result(left, right, matching, found)


_sizes = st.lists(st.sampled_from([4, 4, 4, 8, None]), max_size=2).map(tuple)
_apis = st.builds(Api, st.sampled_from(["Torch.add", "Torch.mul", "Tensor.add"]), _sizes)


def _modules(inside: st.SearchStrategy[Module | Api]) -> st.SearchStrategy[Module]:
    return st.builds(
        Module,
        st.sampled_from(["a", "b", "layers.0"]),
        st.sampled_from(["Block", "Linear"]),
        st.lists(inside, max_size=4).map(tuple),
        _sizes,
    )


_parts = st.recursive(_apis, lambda inside: _modules(inside) | inside, max_leaves=8)
models: st.SearchStrategy[Model] = st.lists(_parts | _modules(_apis), max_size=6).map(tuple)
