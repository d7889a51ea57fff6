"""Whether what one rank gives to another is what that one gets, and sums of such parts the sums.

The monitor names what goes between two ranks by both: on the one ``… given to 3``, on the other
``… got from 0``. Sends and receives meet whatever lines make them, collectives by their line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from msprobe_builder.trend.monitor import PAIR, RankValues
from msprobe_checks.monitor.exchanges import (
    KIND,
    OFF,
    Broken,
    Exchange,
    WrongExchange,
    common,
    factor_of,
    off_by,
)
from msprobe_checks.monitor.rows import Floats, rows_of

_EQUAL = 1e-5  # of its size: sketches of equal tensors, which are rounded sums

# What goes by which channel from which rank to which.
_Way = tuple[str, int, int]


def wrong_transfers(
    places: Mapping[int, Mapping[str, Exchange]], values: Mapping[int, RankValues]
) -> Iterator[WrongExchange]:
    """The first of each channel and pair of ranks, and of each line that adds parts up."""
    given: dict[_Way, str] = {}
    got: dict[_Way, str] = {}
    for rank, own in values.items():
        for kind, name in own.targets:
            found = PAIR.match(name) if kind == KIND else None
            if found is None:
                continue
            channel, way, other = found[1], found[2], int(found[3])
            if way == "given to":
                given[channel, rank, other] = name
            else:
                got[channel, other, rank] = name
    for way in sorted(given.keys() & got.keys()):
        wrong = _unlike(way, given[way], got[way], values)
        if wrong is not None:
            line = places.get(way[2], {}).get(got[way])
            yield wrong if line is None else replace(wrong, name=line.operation)
    for channel, receiver in sorted({(channel, other) for channel, _, other in given}):
        exchange = places.get(receiver, {}).get(channel)
        if exchange is not None and "reduce_scatter" in channel.partition(" ")[0]:
            wrong = _no_sum(channel, receiver, exchange, given, values)
            if wrong is not None:
                yield wrong


def _unlike(
    way: _Way, sent: str, received: str, values: Mapping[int, RankValues]
) -> WrongExchange | None:
    channel, sender, receiver = way
    sides = common(
        [
            rows_of(values[sender], KIND, {sent: 0}),
            rows_of(values[receiver], KIND, {received: 0}),
        ]
    )
    if sides is None:
        return None
    one, other = sides
    size = np.maximum(one.norm, other.norm)
    off = off_by(one.sketch - other.sketch, size, size)
    return _first(off, _EQUAL, other.keys, channel, (receiver,), (sender,), Broken.NOT_RECEIVED)


def _no_sum(
    channel: str,
    receiver: int,
    exchange: Exchange,
    given: Mapping[_Way, str],
    values: Mapping[int, RankValues],
) -> WrongExchange | None:
    ranks = exchange.ranks
    factor = factor_of(exchange)
    names = [given.get((channel, rank, receiver)) for rank in ranks]
    if factor is None or receiver not in ranks:
        return None
    parts = [
        rows_of(values[rank], KIND, {name: 0})
        for rank, name in zip(ranks, names, strict=True)
        if name is not None and rank in values
    ]
    if len(parts) != len(ranks):
        return None
    sides = common([rows_of(values[receiver], KIND, {f"{channel} got": 0}), *parts])
    if sides is None:
        return None
    got, *terms = sides
    together = factor * sum((one.sketch for one in terms), np.zeros_like(got.sketch))
    sizes: Floats = factor * sum((one.norm for one in terms), np.zeros(len(got.keys)))
    off = off_by(got.sketch - together, got.norm, sizes)
    return _first(off, OFF, got.keys, channel, (receiver,), ranks, Broken.NO_SUM)


def _first(
    off: Floats,
    limit: float,
    steps: np.ndarray[tuple[int], np.dtype[np.int64]],
    name: str,
    ranks: tuple[int, ...],
    others: tuple[int, ...],
    broken: Broken,
) -> WrongExchange | None:
    beyond = np.flatnonzero(off > limit)
    if not len(beyond):
        return None
    at = int(beyond[0])
    return WrongExchange(int(steps[at]), name, ranks, others, float(off[at]), broken)
