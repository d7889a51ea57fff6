"""By how much two records of one call differ, in units of what rounding explains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from msprobe_builder.sketch.definition import FLAT
from msprobe_builder.sketch.layout import NO_ROW
from msprobe_builder.sketch.rounding import share_of_rounding
from msprobe_collector.watch.reference import Shown, numbers_of

_CHECKSUM = "md5"  # the key, whatever was computed
_BEGINS = 4.0  # times as far off as what the call is given, at least


class Difference(NamedTuple):
    """Of one call."""

    where: str  # the tensor that differs most among those that the call makes
    share: float  # of its size; infinite where one side has no number
    times: float  # what rounding explains
    begins: bool  # it is given the same


Pair = tuple[Shown, Shown]


class Sketched(Protocol):
    """The sketches of what records are compared with."""

    @property
    def has_sketches(self) -> bool: ...

    def rows(self, wanted: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """By their numbers, with the fields of ROW."""


def difference_of(name: str, pairs: Sequence[Pair], shares: Sequence[float]) -> Difference | None:
    """Of a call whose tensors differ by these shares of their sizes."""
    given = made = 0.0
    is_same = is_known = True
    where, most = "", 0.0
    whole: list[str] = []
    for (own, other), share in zip(pairs, shares, strict=True):
        is_known = is_known and (own.is_made or has_numbers(own.item))
        if not share:
            continue
        if has_size(other.item) and has_size(own.item):
            times = share / share_of_rounding(str(other.item["dtype"]))
        elif is_by_checksum(other.item):
            times = math.inf
        elif own.is_made:
            whole.append(own.where)
            continue
        else:
            times = math.inf
        if not own.is_made:
            given, is_same = max(given, times), False
        elif times > made:
            where, made, most = own.where, times, share
    if (
        whole and is_same and is_known
    ):  # whole numbers tip over by rounding, but not of equal arguments
        return Difference(whole[0], math.inf, math.inf, begins=True)
    if made <= 1.0:
        return None
    begins = is_known and ".parameters_grad" not in name
    begins = begins and given <= 1.0 and made > _BEGINS * given
    return Difference(where, most, made, begins)


def has_numbers(item: Mapping[str, Any]) -> bool:
    """Whether it is known what a tensor held; of memory that nobody has written it is not."""
    high = item.get("Max")
    is_empty = 0 in (item.get("shape") or ())
    return is_empty or (isinstance(high, int | float) and math.isfinite(high))


def is_by_checksum(item: Mapping[str, Any]) -> bool:
    """Whether nothing but a checksum was recorded of a tensor."""
    return bool(item.get(_CHECKSUM)) and all(one is None for one in numbers_of(item))


def have_checksums(own: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether both have one of the same kind."""
    mine, known = own.get(_CHECKSUM), other.get(_CHECKSUM)
    return bool(mine and known) and len(str(mine)) == len(str(known))


def are_same_bits(own: Mapping[str, Any], other: Mapping[str, Any], share: float) -> bool:
    """Whether two tensors are the same as far as is recorded; ``share`` is their difference."""
    if have_checksums(own, other):
        return bool(own[_CHECKSUM] == other[_CHECKSUM])
    pairs = zip(numbers_of(own), numbers_of(other), strict=True)
    return not share and all(a == b or (a != a and b != b) for a, b in pairs)


def has_size(item: Mapping[str, Any]) -> bool:
    """Whether a tensor is one that rounding may change a little."""
    return item.get("Norm") is not None and "float" in str(item["dtype"])


def shares_of(pairs: Sequence[Pair], rows: npt.NDArray[Any], reference: Sketched) -> list[float]:
    """Differences as shares of the sizes of tensors, by statistics where one has no sketch."""
    shares = [_by_statistics(own.item, other.item) for own, other in pairs]
    sketched = [
        place
        for place, (own, other) in enumerate(pairs)
        if own.row != NO_ROW and other.row != NO_ROW and math.isfinite(shares[place])
    ]
    if not sketched or not reference.has_sketches:
        return shares
    mine = rows[[pairs[place][0].row for place in sketched]]
    other = reference.rows(np.array([pairs[place][1].row for place in sketched]))
    unlike = (mine["nans"] != other["nans"]) | (mine["infinities"] != other["infinities"])
    with np.errstate(all="ignore"):
        apart = mine["numbers"][:, :FLAT].astype(float) - other["numbers"][:, :FLAT]
        off = np.sqrt(np.square(apart).sum(1))
    for place, distance, is_unlike in zip(sketched, off.tolist(), unlike.tolist(), strict=True):
        norm = pairs[place][1].item.get("Norm") or 0.0
        share = distance / norm if norm else math.inf if distance else 0.0
        shares[place] = math.inf if is_unlike else max(shares[place], share)
    return shares


def _by_statistics(own: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    if own.get("shape") != other.get("shape"):
        return math.inf
    if is_by_checksum(other):
        is_known = have_checksums(own, other)
        return math.inf if is_known and own[_CHECKSUM] != other[_CHECKSUM] else 0.0
    mine, known = numbers_of(own), numbers_of(other)
    if mine == known:
        return 0.0
    if not all(isinstance(one, int | float) for one in (*mine, *known)):
        return math.inf if mine[:2] != known[:2] else 0.0
    if any(math.isfinite(a) != math.isfinite(b) for a, b in zip(mine, known, strict=True)):
        return math.inf
    pairs = [(a, b) for a, b in zip(mine, known, strict=True) if math.isfinite(a)]
    if len(pairs) < len(known):
        return 0.0  # both have no number there
    size = max(abs(known[0]), abs(known[1]))
    norm = abs(known[3])
    shares = [abs(a - b) / size if size else math.inf * (a != b) for a, b in pairs[:2]]
    shares.append(abs(mine[3] - known[3]) / norm if norm else math.inf * (mine[3] != known[3]))
    return max((one for one in shares if one == one), default=0.0)
