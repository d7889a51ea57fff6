"""Whether all ranks of a group get the same of a communication, and of a sum the sum.

By what ``place.json`` says of each line of the program that communicates: the ranks of its group,
and how a reduction adds up. Lines that serve several groups are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.trend.monitor import RankValues
from msprobe_checks.monitor.rows import Floats, Rows, rows_of

KIND = "communication"
_BY_ALL = {"all_reduce", "broadcast", "all_gather", "all_gather_into_tensor"}
OFF = 0.02  # of its size: sums of half precision over many ranks are rounded by less
_EQUAL = 1e-5  # of its size: sketches of equal tensors, which are rounded sums


class Exchange(NamedTuple):
    """What a line does: ``SUM`` is how a reduction adds up."""

    ranks: tuple[int, ...]
    operation: str


class Broken(str, Enum):
    """What does not hold; what others follow from comes first."""

    NOT_RECEIVED = "not_received"  # another tensor than a rank sent
    NO_SUM = "no_sum"  # not what the ranks gave together
    UNLIKE = "unlike"  # not what the others got


@dataclass(frozen=True)
class WrongExchange:
    """The first step and line of which a result is wrong."""

    step: int
    name: str
    ranks: tuple[int, ...]  # that got it
    others: tuple[int, ...]  # that got another, whose sum it is not, or that sent it
    off: float  # share of its size
    broken: Broken


def wrong_exchanges(
    places: Mapping[int, Mapping[str, Exchange]], values: Mapping[int, RankValues]
) -> Iterator[WrongExchange]:
    """The first of each line; of all ranks, what their lines do by name and what they recorded."""
    lines = {name: exchange for known in places.values() for name, exchange in known.items()}
    for name, exchange in lines.items():
        ranks = exchange.ranks
        is_known = all(rank in values and places[rank].get(name) == exchange for rank in ranks)
        if len(ranks) > 1 and is_known:
            yield from _wrong(name, exchange, {rank: values[rank] for rank in ranks})


def factor_of(exchange: Exchange) -> float | None:
    """By which a reduction multiplies the sum; None where it is none."""
    return {"SUM": 1.0, "AVG": 1 / len(exchange.ranks)}.get(exchange.operation)


def _wrong(
    name: str, exchange: Exchange, values: Mapping[int, RankValues]
) -> Iterator[WrongExchange]:
    ranks, function = exchange.ranks, name.partition(" ")[0]
    if function not in _BY_ALL:
        return
    names = {f"{name} got": 0, f"{name} given": 0}
    got = common([rows_of(values[rank], KIND, names, " got") for rank in ranks])
    if got is None:
        return
    given = common([rows_of(values[rank], KIND, names, " given") for rank in ranks], got[0].keys)
    factor = factor_of(exchange)
    off = np.zeros((len(ranks), len(got[0].keys)))
    if function == "all_reduce" and factor is not None and given is not None:
        together = factor * sum((one.sketch for one in given), np.zeros_like(got[0].sketch))
        sizes: Floats = factor * sum((one.norm for one in given), np.zeros(len(got[0].keys)))
        off = np.array([off_by(one.sketch - together, one.norm, sizes) for one in got])
    for at, step in enumerate(got[0].keys.tolist()):
        is_off = off[:, at] > OFF
        if is_off.any():
            odd = tuple(rank for rank, one in zip(ranks, is_off, strict=True) if one)
            yield WrongExchange(step, name, odd, ranks, float(off[:, at].max()), Broken.NO_SUM)
            return
        sums = np.array([one.sketch[at] for one in got])
        sizes = np.array([one.norm[at] for one in got])
        apart = np.linalg.norm(sums[:, None] - sums[None], axis=-1)
        limit = np.maximum(sizes[:, None], sizes[None])
        is_like = apart <= _EQUAL * limit
        most = is_like[int(np.argmax(is_like.sum(axis=1)))]
        if not most.all():
            odd = tuple(rank for rank, one in zip(ranks, most, strict=True) if not one)
            rest = tuple(rank for rank in ranks if rank not in odd)
            share = float((apart / np.maximum(limit, np.finfo(float).tiny)).max())
            yield WrongExchange(step, name, odd, rest, share, Broken.UNLIKE)
            return


def common(rows: Sequence[Rows], keys: NDArray[np.int64] | None = None) -> list[Rows] | None:
    """The steps that all have, of as many numbers; None where there are none.

    With ``keys`` None as well where they are others.
    """
    shared = reduce(np.intersect1d, [one.keys for one in rows])
    if keys is not None and not np.array_equal(shared, keys):
        return None
    cut = [one.at(shared) for one in rows]
    if not len(shared) or any(not np.array_equal(one.count, cut[0].count) for one in cut):
        return None
    return cut


def off_by(apart: Floats, norm: Floats, sizes: Floats) -> Floats:
    """The lengths of sketches beside the larger of two sizes each, 0 where that is nothing."""
    with np.errstate(all="ignore"):
        off: Floats = np.linalg.norm(apart, axis=1) / np.maximum(norm, sizes)
    return np.where(np.isfinite(off), off, 0.0)
