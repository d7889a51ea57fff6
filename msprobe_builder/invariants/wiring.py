"""Ranks that run one program are given the same by the same calls, and make the same calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msprobe_builder.base.codes import Direction, Strength
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.invariants.run import Rank, Run, Tensor, majority
from msprobe_builder.invariants.violation import Check, Found, Violation
from msprobe_builder.link.pairing import Together
from msprobe_builder.link.signatures import FUNCTIONS, Pattern
from msprobe_builder.operators.prefixes import COLLECTIVES
from msprobe_builder.operators.table import operator_of

_SUMS = ("add", "sub")


def check_wiring(
    run: Run, groups: Iterable[list[int]], together: Iterable[Together], found: Found
) -> None:
    """Look for one rank of three or more that gives a call something else than all others do.

    Among replicas, and among ranks that communicate.
    """
    nodes: set[tuple[int, ...]] = {
        tuple(sorted(call.node for call in one.calls)) for one in together
    }
    for group in groups:
        for name in run.ranks[group[0]].by_name:
            at = [run.ranks[rank].by_name.get(name) for rank in group]
            nodes.add(tuple(sorted(node for node in at if node is not None)))
    for several in sorted(one for one in nodes if len(one) > 2):
        holders = {run.rank_of[node]: node for node in several if node in run.rank_of}
        if not _run_alike(run, holders):
            continue
        sources = {rank: _sources(run.ranks[rank], node) for rank, node in holders.items()}
        known = majority(sources)
        if known is None or len(known[1]) != 1:
            continue
        common, [rank] = known
        assert isinstance(common, tuple)
        said = _said(common, sources[rank])
        if said is not None:
            found.violations.append(Violation(holders[rank], Check.CALL, (said,), ranks=(rank,)))


def _run_alike(run: Run, holders: Mapping[int, int]) -> bool:
    """Whether such calls are made as often on all of them, so that numbers mean the same."""
    counts = {
        (
            run.ranks[rank].nodes[node].stem,
            run.ranks[rank].calls.get(run.ranks[rank].nodes[node].stem),
        )
        for rank, node in holders.items()
    }
    return len(counts) == 1


class _Source(NamedTuple):
    """Where a tensor comes from."""

    maker: str  # the call that made it, or wrote to it last; empty where none did
    place: int  # which of what that put out
    owner: str  # in whose memory it lies; empty where that has no name


def _sources(rank: Rank, node: int) -> tuple[_Source, ...]:
    """Where a call has the tensors from that it is given."""
    return tuple(_source(rank, one) for one in rank.given(node))


def _source(rank: Rank, one: Tensor) -> _Source:
    made = None if one.made_at is None else rank.nodes.get(one.made_at[0])
    owner = rank.owners.get(one.at)
    maker, place = ("", 0) if made is None or one.made_at is None else (made.name, one.made_at[1])
    return _Source(maker, place, "" if owner is None else owner.name)


def _said(common: tuple[_Source, ...], own: tuple[_Source, ...]) -> Fact | None:
    """What is otherwise on the rank that differs, if no program would have it so."""
    pairs = list(zip(common, own, strict=False))
    places = [at for at, (right, wrong) in enumerate(pairs) if right != wrong]
    if len(common) != len(own) or not places:
        return None
    theirs, mine = ([side[at] for at in places] for side in (common, own))
    if len(places) > 1:
        is_exchanged = sorted(theirs) == sorted(mine) and all(one.maker for one in theirs)
        return fact("given.exchanged", name=f"input.{places[0]}") if is_exchanged else None
    [right], [wrong] = theirs, mine
    if right.owner and wrong.owner and right.owner != wrong.owner:
        return fact("given.named", own=wrong.owner, theirs=right.owner)
    if wrong.maker and right.maker != wrong.maker and _gives_all(right.maker):
        return fact("given.unreduced", own=wrong.maker, theirs=right.maker)
    return None


def _gives_all(name: str) -> bool:
    """Whether a call leaves the same on all ranks that make it."""
    prefix, _, rest = name.partition(".")
    function = FUNCTIONS.get(rest.partition(".")[0]) if prefix in COLLECTIVES else None
    return function is not None and function.pattern in (Pattern.ALL, Pattern.FROM_ROOT)


# rank → module call → stem of a call, or class of a module → how often
Children = Mapping[int, Mapping[str, Mapping[str, int]]]


def check_calls(run: Run, groups: Iterable[list[int]], children: Children, found: Found) -> None:
    """Look for sums and communication that one replica does not make inside of a module."""
    for group in groups:
        modules = dict.fromkeys(name for rank in group for name in children.get(rank, {}))
        for name in modules if len(group) > 2 else ():
            made = {rank: children[rank][name] for rank in group if name in children.get(rank, {})}
            if len(made) != len(group):
                continue
            found.count(Check.CALL, is_known=True)
            keys = {rank: tuple(sorted(calls.items())) for rank, calls in made.items()}
            known = majority(keys)
            if known is None or len(known[1]) != 1:
                continue
            [rank] = known[1]
            common = dict(known[0])  # type: ignore[call-overload]
            missing = _missing(common, made[rank])
            if missing is not None:
                node = run.ranks[rank].by_name.get(name)
                if node is not None:
                    said = fact("lacks_call", name=missing)
                    found.violations.append(Violation(node, Check.CALL, (said,), ranks=(rank,)))


def check_siblings(run: Run, children: Children, found: Found) -> None:
    """Look for one module of three or more of a class that lacks a sum, or communication."""
    for rank, modules in children.items():
        classes: dict[str, list[str]] = {}
        for name in modules:
            node = run.ranks[rank].by_name.get(name)
            if node is None or run.ranks[rank].nodes[node].direction != Direction.FORWARD:
                continue
            stem = run.ranks[rank].nodes[node].stem
            if run.ranks[rank].nodes[node].call == 0:
                classes.setdefault(stem.rpartition(".")[2], []).append(name)
        for names in classes.values():
            if len(names) < 3:
                continue
            keys = {number: tuple(sorted(modules[one].items())) for number, one in enumerate(names)}
            known = majority(keys)
            if known is None or len(known[1]) != 1:
                continue
            [odd] = known[1]
            common = dict(known[0])  # type: ignore[call-overload]
            missing = _missing(common, modules[names[odd]])
            node = run.ranks[rank].by_name[names[odd]]
            if missing is not None:
                said = fact("lacks_call.of_class", name=missing, count=len(names) - 1)
                found.violations.append(Violation(node, Check.CALL, (said,), Strength.WEAK))


def _missing(common: Mapping[str, int], own: Mapping[str, int]) -> str | None:
    """The communication that is made less often, or the one sum where all else is the same."""
    others = sorted(one for one in common.keys() | own.keys() if common.get(one) != own.get(one))
    if any(own.get(stem, 0) > common.get(stem, 0) for stem in others):
        return None
    talks = [stem for stem in others if stem.partition(".")[0] in COLLECTIVES]
    sums = [stem for stem in others if operator_of(stem).name in _SUMS]
    return talks[0] if talks else sums[0] if sums and len(others) == 1 else None
