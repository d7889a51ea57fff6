"""The declared parallel layout: which rank holds which part of the model."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.printable import printable

# Dimensions whose ranks hold the same weights and other tokens.
_TOKENS = ("cp",)
# What the ranks of one replica are split by; experts share ranks out anew.
_MODEL = ("tp", *_TOKENS, "pp")
_DIMENSIONS = ("tp", *_TOKENS, "ep", "dp", "pp")
DEFAULT_ORDER = "-".join(_DIMENSIONS)
_REQUIRED = ("rank_size", "tp", "pp")
OPTIONAL = ("vpp", *_TOKENS, "ep", "etp", "order")
_TIMES = " · ".join(_MODEL)


@dataclass(frozen=True)
class ParallelLayout:
    """Sizes of the parallel dimensions of one side.

    ``rank_size = tp · cp · dp · pp``; ``order`` lists the dimensions, the first varies fastest.
    The same ranks are numbered a second time for experts, ``rank_size = etp · ep · edp · pp``:
    expert parallelism takes no ranks of its own, it divides the data- and context-parallel ones.
    ``cuts_batch`` says that ``cp`` counts parts of a batch, not of its sequences.
    """

    rank_size: int
    tp: int
    pp: int
    vpp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    order: tuple[str, ...] = tuple(DEFAULT_ORDER.split("-"))
    cuts_batch: bool = False

    def joined_along_batch(self) -> ParallelLayout:
        """The same ranks as one replica, those of data parallelism with a part of its batch each.

        For layouts without ``cp`` and ``ep``, which share out tokens as well.
        """
        exchanged = {"dp": "cp", "cp": "dp"}
        order = tuple(exchanged.get(name, name) for name in self.order)
        return replace(self, cp=self.dp, order=order, cuts_batch=True)

    @property
    def dp(self) -> int:
        """Number of replicas of the model."""
        return self.rank_size // prod(self.size(name) for name in _MODEL)

    def expert_place(self, rank: int) -> dict[str, int]:
        """Where a rank stands among those of the experts, 0 in dimensions of tokens."""
        edp = self.rank_size // (self.etp * self.ep * self.pp)
        sizes = dict.fromkeys(_TOKENS, 1)
        sizes |= {"tp": self.etp, "ep": self.ep, "dp": edp, "pp": self.pp}
        place = {}
        for dimension in self.order:
            rank, place[dimension] = divmod(rank, sizes[dimension])
        return place

    def place(self, rank: int) -> dict[str, int]:
        """Where a rank stands in each dimension, as ranks are numbered for all but experts."""
        place = {}
        for dimension in self.order:
            rank, place[dimension] = divmod(rank, self.size(dimension))
        return place

    def size(self, dimension: str) -> int:
        """Size of one dimension as ranks are numbered for all but experts."""
        return 1 if dimension == "ep" else int(getattr(self, dimension))

    def sizes(self) -> dict[str, int]:
        """All sizes that a sentence on the layout may name, in the order of the documents."""
        names = ("tp", "pp", "vpp", *_TOKENS, "ep", "dp")
        return {name: int(getattr(self, name)) for name in names}


@dataclass(frozen=True)
class Replica:
    """The ranks of one data-parallel replica, ``ranks[pp][tokens][tp]``.

    ``tokens`` runs over context parallelism and whatever else gives ranks other tokens.
    """

    index: int
    ranks: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def label(self) -> int:
        """The replica's name among ranks: its first one."""
        return self.ranks[0][0][0]

    def all_ranks(self) -> list[int]:
        """Every rank of the replica, stage by stage."""
        return [rank for stage in self.ranks for tp in stage for rank in tp]


def replicas(layout: ParallelLayout) -> list[Replica]:
    """The replicas in the order of their data-parallel index."""
    strides = {}
    stride = 1
    for dimension in layout.order:
        strides[dimension] = stride
        stride *= layout.size(dimension)

    def rank(dp: int, pp: int, tokens: tuple[int, ...], tp: int) -> int:
        place = {"tp": tp, "dp": dp, "pp": pp, **dict(zip(_TOKENS, tokens, strict=True))}
        return sum(at * strides[dimension] for dimension, at in place.items())

    shares = list(product(*(range(layout.size(name)) for name in _TOKENS)))
    return [
        Replica(
            dp,
            tuple(
                tuple(tuple(rank(dp, pp, one, tp) for tp in range(layout.tp)) for one in shares)
                for pp in range(layout.pp)
            ),
        )
        for dp in range(layout.dp)
    ]


def expert_peers(layout: ParallelLayout) -> list[frozenset[int]]:
    """The replicas, by index, that send their tokens to the same experts; each is in one set."""
    meets: dict[tuple[int, int], set[int]] = {}
    for replica in replicas(layout):
        for rank in replica.all_ranks():
            place = layout.expert_place(rank)
            meets.setdefault((place["dp"], place["pp"]), set()).add(replica.index)
    return united([frozenset(one) for one in meets.values()])


def united(sets: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Sets that share a member become one; in order of their smallest member."""
    result: list[frozenset[int]] = []
    for one in sets:
        whole = one.union(*(other for other in result if one & other))
        result = [other for other in result if not one & other] + [whole]
    return sorted(result, key=min)


def groups(layout: ParallelLayout, dimension: str) -> list[tuple[int, ...]]:
    """The communication groups along ``tp`` or ``pp``, each in order, sorted by first rank."""
    found = []
    for replica in replicas(layout):
        if dimension == "tp":
            found += [tp for stage in replica.ranks for tp in stage]
        else:
            places = product(range(len(replica.ranks[0])), range(layout.tp))
            found += [tuple(stage[of][tp] for stage in replica.ranks) for of, tp in places]
    return sorted(found)


def parse_layout(value: Any, where: str) -> ParallelLayout:
    """Check one side of ``parallel_merge``; ``where`` names file and key in messages."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{where} must be an object with rank_size, tp and pp.")
    known = (*_REQUIRED, *OPTIONAL)
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
            hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(known)}."
            raise UsageError(f"{where} has the unknown key '{key}'; {hint}")
    sizes: dict[str, int] = {}
    for key in (one for one in known if one != "order"):
        size = value.get(key)
        if size is None and key not in _REQUIRED:
            size = sizes["tp"] if key == "etp" else 1
        if size is None:
            raise UsageError(
                f"{where} lacks '{key}'; add it as in the training script, or \"auto\"."
            )
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise UsageError(
                f"{where}: '{key}' is {printable(repr(size))}; it must be a whole number above 0, "
                "without quotes."
            )
        sizes[key] = size
    order = _parse_order(value.get("order"), sizes, where)
    layout = ParallelLayout(**sizes, order=order, cuts_batch=False)
    model = prod(layout.size(name) for name in _MODEL)
    if layout.rank_size % model:
        raise UsageError(
            f"{where}: rank_size {layout.rank_size} is no multiple of {_TIMES} = {model}; "
            "correct the sizes."
        )
    if layout.etp not in (1, layout.tp):
        raise UsageError(
            f"{where}: etp is {layout.etp}; experts are split as the rest of the model "
            f"(etp {layout.tp}) or not at all (etp 1)."
        )
    shared = layout.rank_size // (layout.etp * layout.pp)
    if shared % layout.ep:
        dense = " · ".join(("dp", *_TOKENS))
        ranks = dense if layout.etp == layout.tp else f"tp · {dense}"
        raise UsageError(
            f"{where}: ep {layout.ep} does not divide {ranks} = {shared}; experts are shared out "
            "over these ranks: correct ep or rank_size."
        )
    if layout.vpp > 1 and layout.pp < 2:
        raise UsageError(f"{where}: vpp {layout.vpp} needs pp of 2 or more; correct one of them.")
    return layout


def _parse_order(value: Any, sizes: dict[str, int], where: str) -> tuple[str, ...]:
    if value is None:
        return tuple(DEFAULT_ORDER.split("-"))
    if not isinstance(value, str):
        raise UsageError(f"{where}: 'order' must be text such as {DEFAULT_ORDER!r}.")
    words = value.split("-")
    for word in words:
        if word not in _DIMENSIONS:
            raise UsageError(
                f"{where}: 'order' holds the unknown word {printable(repr(word))}; "
                f"it lists {', '.join(_DIMENSIONS)} joined by hyphens."
            )
        if words.count(word) > 1:
            raise UsageError(f"{where}: 'order' names {word!r} twice; name it once.")
    if "ep" in words and "dp" in words and abs(words.index("ep") - words.index("dp")) != 1:
        raise UsageError(f"{where}: 'order' must name ep next to dp.")
    dp = sizes["rank_size"] // max(prod(sizes[name] for name in _MODEL), 1)
    used = {**sizes, "dp": dp}
    missing = [name for name in _DIMENSIONS if name not in words]
    for name in missing:
        if used[name] > 1:
            raise UsageError(f"{where}: 'order' lacks {name!r}, which is {used[name]}; add it.")
    return (*words, *missing)
