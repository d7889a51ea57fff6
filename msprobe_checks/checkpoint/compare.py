"""How alike two models are, parameter by parameter, one tensor of each in memory at a time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msprobe_builder.facts.fact import Fact, fact
from msprobe_checks.checkpoint.explain import cause_of, differing_part, is_nearer
from msprobe_checks.checkpoint.names import EMBEDDING, HEAD, by_family, plain_name
from msprobe_checks.checkpoint.parameter import Checkpoint, Parameter, are_equal

if TYPE_CHECKING:
    import torch

_PIECE = 1 << 20  # elements that are widened at once
_MOST_EXCHANGED = 64  # differing parameters up to which exchanges are looked for
_NEARBY = 4  # layers on each side whose parameters are compared with one that differs
_NUMBER = re.compile(r"\d+")
_EMBEDDINGS = (EMBEDDING, "embedding.word_embeddings.weight")
_HEADS = (HEAD, "output_layer.weight")
_SAME_NAMES = 0.5  # share of common names from which both are taken to be of one family
# Distance between neighbouring numbers of a type at 1.
_STEP = {"float64": 2**-52, "float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}
_STEP |= {"float8_e4m3fn": 2**-3, "float8_e5m2": 2**-2}


@dataclass(frozen=True)
class Similarity:
    """One parameter of both models; numbers are None where there is nothing to compare.

    ``l2`` is ‖a − b‖, ``cosine`` a·b / (‖a‖ ‖b‖), 1 where both are zero and None where one is;
    ``relative`` the largest |a − b| / max(|a|, |b|) of an element.
    """

    name: str
    shapes: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    l2: float | None = None
    cosine: float | None = None
    relative: float | None = None
    share: float | None = None  # ‖a − b‖ / ‖b‖
    is_rounding: bool = False  # no more than writing in the coarser of both types explains
    cause: Fact | None = None  # what was exchanged or cut off, where it can be told
    not_numbers: int = 0  # elements that are NaN at the same place on both sides
    is_part: bool = False  # the cause says where the difference is, not what was done

    @property
    def is_explained(self) -> bool:
        """Whether the cause says what was done."""
        return self.cause is not None and not self.is_part

    @property
    def is_one_sided(self) -> bool:
        """Whether only one model has it."""
        return None in self.shapes


@dataclass(frozen=True)
class Comparison:
    """Two checkpoints beside each other, parameters in the order of the second."""

    kinds: tuple[str, str]
    parameters: tuple[Similarity, ...]
    notes: tuple[Fact, ...]
    unread: tuple[str, ...] = ()  # what cannot be compared, on either side


def compare(first: Checkpoint, second: Checkpoint) -> Comparison:
    """Compare every parameter that both have, by name or by the names that their families give."""
    notes = [*first.notes, *second.notes]
    unread = [
        plain_name(name)
        for side in (first, second)
        for name, one in side.parameters.items()
        if one.is_unread
    ]
    first, second = (_without(side, frozenset(unread)) for side in (first, second))
    a, b = _named_alike(first, second, notes)
    a, b = _untied(a, b, notes), _untied(b, a, notes)
    found = [_similarity(name, a.get(name), one) for name, one in b.items()]
    found = _with_exchanged(found, a, b)
    found += [_similarity(name, one, None) for name, one in a.items() if name not in b]
    left_out = tuple(dict.fromkeys(unread))
    return Comparison((first.kind, second.kind), tuple(found), tuple(notes), left_out)


def _without(side: Checkpoint, names: frozenset[str]) -> Checkpoint:
    kept = {name: one for name, one in side.parameters.items() if plain_name(name) not in names}
    return replace(side, parameters=kept)


def _with_exchanged(
    found: list[Similarity], a: Mapping[str, Parameter], b: Mapping[str, Parameter]
) -> list[Similarity]:
    """Parameters that hold what the other model has under another name say so."""
    unexplained = [one for one in found if one.l2 is not None and not one.is_rounding]
    if len(unexplained) > _MOST_EXCHANGED:  # models that were trained apart
        return found
    for one in unexplained:
        if one.is_explained:
            continue
        own = a[one.name].load()
        for name in _candidates(one.name, [other.name for other in unexplained], list(b)):
            if is_padded(name, a[one.name], b[name]) and is_padded(one.name, a[one.name], b[name]):
                count = min(own.shape[0], b[name].shape[0])
                is_it = is_nearer(own[:count], b[name].load()[:count], one.share)
            else:
                is_it = b[name].shape == own.shape and is_nearer(own, b[name].load(), one.share)
            if is_it:
                place = found.index(one)
                cause = fact("checkpoint.exchanged", name=name)
                found[place] = replace(one, cause=cause, is_part=False)
                break
    return found


def _candidates(name: str, differing: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """What a parameter may have been taken for: others that differ, those of layers nearby.

    An output layer may be the embedding.
    """
    alike = [one for one in names if _NUMBER.sub("", one) == _NUMBER.sub("", name)]
    place = alike.index(name)
    nearby = [*alike[max(0, place - _NEARBY) : place], *alike[place + 1 : place + 1 + _NEARBY]]
    tied = [one for one in names if one in _EMBEDDINGS] if name in _HEADS else []
    yield from dict.fromkeys(one for one in (*differing, *nearby, *tied) if one != name)


def _named_alike(
    first: Checkpoint, second: Checkpoint, notes: list[Fact]
) -> tuple[dict[str, Parameter], dict[str, Parameter]]:
    a, b = (
        {plain_name(name): one for name, one in side.parameters.items()} for side in (first, second)
    )
    common = len(a.keys() & b.keys())
    if common >= _SAME_NAMES * min(len(a), len(b)):
        return a, b
    groups = first.groups or second.groups
    a, b = by_family(first, groups), by_family(second, groups)
    if a.keys() & b.keys():
        notes.append(fact("checkpoint.by_role"))
    return a, b


def _untied(
    own: dict[str, Parameter], other: Mapping[str, Parameter], notes: list[Fact]
) -> dict[str, Parameter]:
    """Without an output layer that is the embedding once more, when the other model has none."""
    heads = [name for name in own if name in _HEADS and name not in other]
    embeddings = [name for name in own if name in _EMBEDDINGS]
    for head in heads:
        for embedding in embeddings:
            if are_equal(own[head].load(), own[embedding].load()):
                notes.append(fact("checkpoint.tied", name=head))
                return {name: one for name, one in own.items() if name != head}
    return own


def _similarity(name: str, a: Parameter | None, b: Parameter | None) -> Similarity:
    if a is None or b is None:
        return Similarity(name, (None if a is None else a.shape, None if b is None else b.shape))
    shapes = (a.shape, b.shape)
    x, y = a.load(), b.load()
    padding: Fact | None = None
    if x.shape != y.shape and is_padded(name, a, b):
        count = min(x.shape[0], y.shape[0])
        padding = fact("checkpoint.padding", row=count)
        x, y = x[:count], y[:count]
    if x.shape != y.shape:
        return Similarity(name, shapes, cause=cause_of(x, y))
    if a.is_bits or b.is_bits:
        is_equal = a.dtype == b.dtype and bool((x == y).all())
        cause = None if is_equal else fact("checkpoint.bits", first=a.dtype, second=b.dtype)
        return Similarity(name, shapes, is_rounding=is_equal, cause=cause)
    step = max(_STEP.get(one.dtype, 0.0) for one in (a, b))
    l2, cosine, relative, share, is_rounding, nans = _measured(x, y, step)
    if is_rounding:
        return Similarity(
            name, shapes, l2, cosine, relative, share, True, padding, not_numbers=nans
        )
    cause = cause_of(x, y)
    part = differing_part(x, y) if cause is None else None
    if cause is not None and padding is not None:
        cause = fact("checkpoint.both", padding=padding, cause=cause)
    return Similarity(
        name, shapes, l2, cosine, relative, share, False, cause or part, is_part=part is not None
    )


def is_padded(name: str, a: Parameter, b: Parameter) -> bool:
    """Whether only the padding of the vocabulary differs, which depends on the split."""
    is_vocabulary = any(word in name for word in ("embed", "output_layer", "lm_head", "wte"))
    return is_vocabulary and len(a.shape) == len(b.shape) > 0 and a.shape[1:] == b.shape[1:]


def _measured(
    x: torch.Tensor, y: torch.Tensor, step: float
) -> tuple[float, float | None, float, float | None, bool, int]:
    """l2, cosine, relative and share, whether half a ``step`` of rounding explains it all.

    Last how many elements are NaN on both sides, which the rest leaves out.
    """
    distance = dot = of_x = of_y = relative = 0.0
    is_rounding, nans = True, 0
    for a, b in _pieces(x, y):
        apart = (a - b).abs()
        apart[a == b] = 0.0  # equal infinities
        neither = a.isnan() & b.isnan()
        # Of a complex number, which are two numbers here, one is enough.
        count = int((neither.any(1) if neither.dim() > 1 else neither).sum())
        if count:
            nans += count
            apart, a, b = (one.masked_fill(neither, 0.0) for one in (apart, a, b))
        larger = a.abs().maximum(b.abs())
        distance += float(apart.square().sum())
        dot += float((a * b).sum())
        of_x += float(a.square().sum())
        of_y += float(b.square().sum())
        ratio = (apart / larger).where(apart != 0, apart)
        worst = float(ratio.max()) if ratio.numel() else 0.0
        if math.isnan(worst) or worst > relative:
            relative = worst
        # Numbers below the normal range are written in equal steps.
        within = (apart <= step * larger) & apart.isfinite()
        is_rounding = is_rounding and bool((within | (apart <= 1e-37)).all())
    cosine = 1.0 if of_x == of_y == 0 else None
    if of_x > 0 and of_y > 0:
        cosine = max(-1.0, min(1.0, dot / math.sqrt(of_x) / math.sqrt(of_y)))
    share = math.sqrt(distance / of_y) if of_y > 0 else (0.0 if distance == 0 else None)
    return math.sqrt(distance), cosine, relative, share, is_rounding, nans


def _pieces(x: torch.Tensor, y: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Both in float64, piece by piece."""
    import torch

    x, y = x.reshape(-1), y.reshape(-1)
    for start in range(0, max(1, x.numel()), _PIECE):
        part = slice(start, start + _PIECE)
        if x.is_complex() or y.is_complex():
            wide = (torch.view_as_real(one[part].to(torch.complex128)) for one in (x, y))
        else:
            wide = (one[part].to(torch.float64) for one in (x, y))
        yield next(wide), next(wide)
