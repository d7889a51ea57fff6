"""Options of two runs beside each other: which files, which names, and what differs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from decimal import Decimal

from msprobe_builder.configuration.levels import ERROR, PASS, WARNING
from msprobe_builder.configuration.pack import Values
from msprobe_builder.facts.fact import Fact, fact

_SAME_OPTION = {
    "lr": "learning-rate",
    "batch-size": "global-batch-size",
    "per-device-train-batch-size": "micro-batch-size",
    "tp": "tensor-model-parallel-size",
    "pp": "pipeline-model-parallel-size",
    "sequence-length": "seq-length",
    "max-seq-length": "seq-length",
    "hidden-dim": "hidden-size",
    "num-hidden-layers": "num-layers",
    "num-heads": "num-attention-heads",
    "random-seed": "seed",
}
_ALIKE = 0.8  # similarity of names from which two are shown beside each other
# Where a run writes or finds its files, and how ranks find each other.
_PLACES = (
    *("path", "dir", "save", "load", "log", "port", "addr", "name", "file", "cache"),
    *("master", "rdzv", "node-rank", "project"),
)


def files_beside(bench: Mapping[str, Values], other: Mapping[str, Values]) -> list[tuple[str, str]]:
    """Files of one name, and of those that are called differently the ones most alike.

    These are scripts of two machines, ``run_gpu.sh`` and ``run_npu.sh``: most options are in both.
    """
    pairs = [(name, name) for name in bench if name in other]
    left, right = ([one for one in side if (one, one) not in pairs] for side in (bench, other))
    common = {(a, b): len(bench[a].keys() & other[b].keys()) for a in left for b in right}
    for a, b in sorted(common, key=lambda pair: (-common[pair], pair)):
        if a in left and b in right and (common[a, b] or len(bench) == len(other) == 1):
            pairs.append((a, b))
            left.remove(a)
            right.remove(b)
    return pairs


def differing_options(
    bench: Values, other: Values
) -> Iterable[tuple[str, str, object, object, Fact, str]]:
    """Options that differ: equal names first, then known and similar ones."""
    left = dict(other.items())
    for name, value in bench.items():
        partner, matched = _partner(name, left, bench)
        if partner is None:
            yield name, "", value, None, fact("configuration.one_side"), _one_sided(name)
            continue
        b = left.pop(partner)
        if not _is_equal(value, b):
            yield name, partner, value, b, matched, WARNING if _is_place(name) else ERROR
    for name, value in left.items():
        yield "", name, None, value, fact("configuration.one_side"), _one_sided(name)


def _partner(name: str, left: Values, bench: Values) -> tuple[str | None, Fact]:
    if name in left:
        return name, fact("configuration.same_name")
    free = [one for one in left if one not in bench]
    known = _SAME_OPTION.get(name, name)
    for one in free:
        if _SAME_OPTION.get(one, one) == known:
            return one, fact("configuration.same_meaning")
    alike = difflib.get_close_matches(name, free, 1, _ALIKE)
    return (alike[0] if alike else None), fact("configuration.similar_name")


def _one_sided(name: str) -> str:
    return PASS if _is_place(name) else WARNING


def _is_place(name: str) -> bool:
    return any(word in name.lower().replace("_", "-") for word in _PLACES)


def _is_equal(a: object, b: object) -> bool:
    """Equal as written, or as numbers: 1e-4 is 0.0001; whole ones to the last of their digits."""
    if a == b or str(a).lower() == str(b).lower():
        return True
    try:
        x, y = Decimal(str(a)), Decimal(str(b))
        is_whole = x == x.to_integral_value() and y == y.to_integral_value()
        return x == y or (not is_whole and float(x) == float(y))
    except (ArithmeticError, ValueError):
        return False
