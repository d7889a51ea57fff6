"""Numbering the layers of all pipeline stages through.

Frameworks number the layers of a stage from 0, so layer 0 of stage 1 and of stage 0 have one
name. A layer list is recognised by its path: the outermost number in a module's path, behind the
number of the model chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from msprobe_builder.dump.names import Kind, Name
from msprobe_builder.graph.tree import Tree


class LayerPlace(NamedTuple):
    """Where the layer number stands in a stem: components before it, the number, the rest."""

    path: str
    number: int
    rest: str


class Piece(NamedTuple):
    """One chunk of the model on one stage; mostly data flows through them chunk by chunk."""

    chunk: int
    stage: int


@dataclass(frozen=True)
class LayerNumbering:
    """New numbers: ``offset[piece][list path]`` is added to the piece's own."""

    is_chunked: bool  # modules begin with the number of a model chunk
    keep_chunk: bool  # False when all chunks become one model
    offset: dict[Piece, dict[str, int]]
    split: frozenset[str]  # lists with layers on more than one piece
    first: Mapping[Piece, int]  # layer of each piece, where numbers run through; else nothing

    def in_flow_order(self, pieces: Iterable[Piece]) -> list[Piece]:
        """The pieces as data flows through them; stages may lie as a V."""
        return sorted(pieces, key=lambda one: (self.first.get(one, 0), one))

    def chunk(self, stem: str) -> int:
        """The model chunk a module belongs to."""
        if not self.is_chunked or self.keep_chunk:
            return 0
        return int(stem.split(".", 2)[1])

    def rename(self, stem: str, stage: int) -> str:
        """The stem of a module in the merged model."""
        piece = Piece(self.chunk(stem), stage)
        stem = self._one_model(stem)
        place = layer_place(stem, self.is_chunked)
        if place is None:
            return stem
        index = place.number + self.offset.get(piece, {}).get(place.path, 0)
        return f"{place.path}.{index}{place.rest}"

    def is_layer(self, renamed: str) -> bool:
        """Whether a renamed stem is a layer itself, in a list that is split over pieces."""
        place = layer_place(renamed, self.is_chunked)
        return place is not None and place.path in self.split and place.rest.count(".") == 1

    def _one_model(self, stem: str) -> str:
        if not self.is_chunked or self.keep_chunk:
            return stem
        prefix, _, rest = stem.split(".", 2)
        return f"{prefix}.0.{rest}"


def layer_place(stem: str, is_chunked: bool) -> LayerPlace | None:
    """The outermost layer number of a module's stem, None when it is in no list."""
    parts = stem.split(".")
    for position in range(2 if is_chunked else 1, len(parts) - 1):
        if _is_number(parts[position]):
            rest = parts[position + 1 :]
            return LayerPlace(
                ".".join(parts[:position]),
                int(parts[position]),
                "".join(f".{part}" for part in rest),
            )
    return None


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdigit()


def number_layers(trees: Sequence[Tree], chunks: int) -> LayerNumbering:
    """Number the layers of all stages through; ``chunks`` is the virtual pipeline size."""
    stems = [_module_stems(tree) for tree in trees]
    is_chunked = _are_chunked(stems, chunks)
    numbering = LayerNumbering(is_chunked, chunks == 1, {}, frozenset(), {})
    found: dict[Piece, dict[str, set[int]]] = {}
    every: set[Piece] = set()  # those without layers, too
    for stage, own in enumerate(stems):
        for stem in own:
            piece = Piece(numbering.chunk(stem), stage)
            every.add(piece)
            place = layer_place(numbering._one_model(stem), is_chunked)
            if place is not None:
                found.setdefault(piece, {}).setdefault(place.path, set()).add(place.number)
    offset: dict[Piece, dict[str, int]] = {}
    split = set()
    first: dict[Piece, int] = {}
    for path in {path for lists in found.values() for path in lists}:
        pieces = [piece for piece in sorted(found) if path in found[piece]]
        if len(pieces) < 2:
            continue
        split.add(path)
        if _are_global([found[piece][path] for piece in pieces]):
            if pieces == sorted(every):
                first = {piece: min(found[piece][path]) for piece in pieces}
            continue
        total = 0
        for piece in pieces:
            indices = found[piece][path]
            offset.setdefault(piece, {})[path] = total - min(indices)
            total += 1 + max(indices) - min(indices)
    return LayerNumbering(is_chunked, chunks == 1, offset, frozenset(split), first)


def _module_stems(tree: Tree) -> set[str]:
    return {name.stem for name in tree.parsed[1:] if _is_module(name)}


def _is_module(name: Name) -> bool:
    return name.kind is Kind.MODULE and name.stem.partition(".")[0] in ("Module", "Cell")


def _are_chunked(stems: Sequence[set[str]], chunks: int) -> bool:
    """Whether ``Module.<n>.`` counts model chunks; with one chunk it must always be 0.

    A bare nn.Sequential has numbers there as well, but more than one per stage.
    """
    numbers = {stem.split(".", 2)[1] for own in stems for stem in own if stem.count(".") > 1}
    if chunks > 1:
        return all(_is_number(number) for number in numbers)
    return numbers == {"0"}


def _are_global(indices: Sequence[set[int]]) -> bool:
    """Whether the numbers already run through: no two pieces have the same, nor any in between."""
    in_order = sorted(indices, key=min)
    return all(max(before) < min(after) for before, after in pairwise(in_order))
