"""How ranks were split, read from what they recorded: groups of collectives, peers of sends, names.

The first rank tells most. A reduction or a gathering inside a parallel layer runs over the
tensor-parallel group, and its ranks hold other parts of the weights; an exchange around experts
runs over the expert-parallel group, what attention gathers, exchanges or sends in a ring over the
context-parallel group; the nearest peer of the sends between stages is as many ranks away as a
stage has. What is left are replicas. What nothing recorded tells must be declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msprobe_builder.base.errors import UsageError
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.clues import Clues, read_clues
from msprobe_builder.merge.ranks.layout import OPTIONAL, ParallelLayout, parse_layout, replicas


@dataclass(frozen=True)
class AutoLayout:
    """A layout to be found; ``declared`` are the sizes that are known and win over all others.

    ``rank_size`` is None where as many ranks are meant as there are.
    """

    declared: Mapping[str, object] = field(default_factory=dict)
    where: str = "parallel_merge"
    rank_size: int | None = None


@dataclass(frozen=True)
class FoundLayout:
    """What was found, what is said of it, and whether all of it was recorded or declared."""

    layout: ParallelLayout
    said: Fact
    is_sure: bool


def find_layout(auto: AutoLayout, rank_size: int, read: Callable[[int], Side]) -> FoundLayout:
    """Find the layout of ``rank_size`` ranks; ``read`` gives a rank.

    UsageError when what was recorded fits no layout: it must be declared then.
    """
    clues = read_clues(read(0))
    _check_presence(auto, clues, rank_size)
    _check_experts(auto, clues, rank_size)
    declared = dict(auto.declared)
    sizes: dict[str, object] = {}
    why: dict[str, Fact | None] = {}
    pp, of_stages = _stages(clues, rank_size, read)
    if isinstance(of_stages, str) and "pp" not in declared:
        raise UsageError(f"{auto.where}: {of_stages}; declare pp.")
    why["pp"] = None if isinstance(of_stages, str) else of_stages
    sizes["pp"] = pp or 1
    told = declared.get("pp", pp)
    stage = rank_size // told if isinstance(told, int) and 0 < told <= rank_size else rank_size
    sizes["tp"], why["tp"], are_alike = _parts(auto, clues, stage, read)
    of_tensors = range(int(str(declared.get("tp", sizes["tp"]))))
    for name, groups in (("ep", clues.expert), ("cp", clues.context - clues.tensor)):
        group = _own_group(groups)
        if name == "cp" and group == (*of_tensors,):
            group = None  # of layers that hold their parallel layers themselves
        sizes[name] = 1 if group is None else len(group)
        code = "layout.experts" if name == "ep" else "layout.attention"
        why[name] = None if group is None else fact(code, ranks=_shown(group))
        if name == "ep" and len(of_tensors) > 1 and group is not None:
            # Ranks of one tensor-parallel group that exchange tokens hold other, whole experts.
            sizes["etp"] = 1 if len({*group} & {*of_tensors}) > 1 else len(of_tensors)
    ring = sorted(peer for peer in clues.ring if 0 < peer < rank_size)
    if sizes["cp"] == 1 and ring and ring[-1] % ring[0] == 0:
        sizes["cp"] = ring[-1] // ring[0] + 1
        why["cp"] = fact("layout.ring", ranks=ring)
    sizes["vpp"] = max(len(clues.chunks), 1) if told != 1 else 1
    if sizes["vpp"] != 1:
        why["vpp"] = fact("layout.chunks")
    conflicts = [
        name
        for name, size in declared.items()
        if name in sizes and size != sizes[name] and why.get(name)
    ]
    for name in declared:
        if name in conflicts:
            size = int(str(sizes[name]))
            why[name] = fact("layout.declared_otherwise", size=size, why=why[name])
        else:
            why[name] = fact("layout.declared")
    try:
        layout = parse_layout({"rank_size": rank_size, **sizes, **declared}, auto.where)
    except UsageError as error:
        told_of = {**sizes, **declared}.items()
        found = [_size(name, str(size), why[name]) for name, size in told_of if why.get(name)]
        listed = tell(fact("layout.sizes", sizes=found), ENGLISH)
        raise UsageError(f"{error} Sizes are {listed}.") from error
    other = _other_groups(layout, clues, declared)
    if other and "order" not in declared:
        raise UsageError(
            f"{auto.where}: {tell(other, ENGLISH)}, which the numbering {'-'.join(layout.order)} "
            "does not give; declare order, tp, pp and cp."
        )
    own = layout.sizes()
    if layout.etp != layout.tp:
        own["etp"] = layout.etp
        why.setdefault("etp", fact("layout.exchange_in_group"))
    why["dp"] = fact("layout.left") if layout.dp > 1 else None
    is_open = clues.attention_talks and layout.cp == 1
    if is_open and layout.dp > 1 and "cp" not in declared:
        raise UsageError(
            f"{auto.where}: attention talks to other ranks, but neither a group nor a peer tells "
            "to which; declare cp."
        )
    is_told = layout.dp == 1 or "cp" in declared or clues.has_calls
    clauses = [
        _size(name, size, why.get(name))
        for name, size in own.items()
        if size > 1 or name in ("tp", "pp", "etp") or name in declared
    ]
    clauses = [
        fact("layout.sizes", sizes=clauses),
        *([] if is_told else [fact("layout.dp_or_cp")]),
        *([fact("layout.order_otherwise", what=other)] if other else []),
        *([fact("layout.correct")] if conflicts else []),
    ]
    is_sure = is_told and not (conflicts or other) and (are_alike or "tp" in declared)
    said = fact("note.layout_found", ranks=rank_size, clauses=clauses)
    return FoundLayout(layout, said, is_sure)


def _size(name: str, size: int | str, why: Fact | None) -> Fact:
    told = None if why is None else fact("layout.why", why=why)
    return fact("layout.size", name=name, size=size, why=told)


def _check_presence(auto: AutoLayout, clues: Clues, rank_size: int) -> None:
    """Refuse dumps of some of the ranks only: what is missing may be stages as well as replicas."""
    absent = max((*clues.named, *clues.peers, *clues.ring, 0))
    if absent >= rank_size:
        raise UsageError(
            f"{auto.where}: rank 0 recorded calls with rank {absent}, but there are dumps of "
            f"{rank_size} {'ranks' if rank_size > 1 else 'rank'} only; give those of all ranks, or "
            "declare rank_size, tp, pp and whatever else splits those that are there."
        )


def _check_experts(auto: AutoLayout, clues: Clues, rank_size: int) -> None:
    """Give exchanges around experts the group that is left to them, or refuse to guess it."""
    if not clues.experts_talk or clues.expert or "ep" in auto.declared:
        return
    if rank_size > 2:
        raise UsageError(
            f"{auto.where}: experts exchange tokens, but no group tells between which ranks; "
            "declare ep, and etp if experts are not split as the rest."
        )
    clues.expert.add(tuple(range(rank_size)))


def _own_group(groups: set[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The smallest group that rank 0 shares with others, of neighbours if there are several."""
    own = [one for one in groups if 0 in one and len(one) > 1]
    return min(own, key=lambda one: (len(one), one), default=None)


def _other_groups(
    layout: ParallelLayout, clues: Clues, declared: Mapping[str, object]
) -> Fact | None:
    """The group of rank 0 that the layout gives it otherwise, None if there is none."""
    stage = next(one for one in replicas(layout)[0].ranks if any(0 in ranks for ranks in one))
    of_tensors = next(ranks for ranks in stage if 0 in ranks)
    of_tokens = tuple(ranks[of_tensors.index(0)] for ranks in stage)
    for name, expected, groups in (
        ("tp", of_tensors, clues.tensor),
        ("cp", of_tokens, clues.context - clues.tensor),
    ):
        same = [one for one in groups if len(one) == len(expected) > 1 and 0 in one]
        if name not in declared and same and tuple(sorted(expected)) not in same:
            code = "layout.collectives_run" if name == "tp" else "layout.attention_over"
            return fact(code, ranks=_shown(min(same)))
    return None


def _shown(group: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, group[:8]))}{', …' if len(group) > 8 else ''}]"


def _parts(
    auto: AutoLayout, clues: Clues, stage: int, read: Callable[[int], Side]
) -> tuple[int, Fact | None, bool]:
    """In how many parts the layers of a stage of so many ranks are cut, how it is known, how sure.

    It is not sure where ranks that should hold the same parts do so for most of them only.
    """
    group = _own_group(clues.tensor)
    if group is not None:
        words = fact("layout.collectives", ranks=_shown(group))
        if stage % len(group) == 0 or "tp" in auto.declared:
            return len(group), words, True
        raise UsageError(
            f"{auto.where}: {tell(words, ENGLISH)} fit into no stage of {stage} "
            f"{'ranks' if stage > 1 else 'rank'}; declare tp, pp and order."
        )
    if not clues.is_parallel or stage == 1:
        return 1, None if clues.is_parallel else fact("layout.no_parallel_class"), True
    if "tp" in auto.declared:
        return 1, None, True
    if not clues.weights:
        raise UsageError(
            f"{auto.where}: there are parallel layers, but neither groups nor statistics of "
            "weights tell in how many parts they are cut; declare tp."
        )
    for count in range(1, stage):
        if stage % count:
            continue
        others = read_clues(read(count)).weights
        alike = sum(others.get(key) == values for key, values in clues.weights.items())
        if alike * 2 >= len(clues.weights):
            are_alike = alike == len(clues.weights)
            if are_alike:
                return count, fact("layout.same_parts", rank=count), True
            numbers = {"alike": alike, "count": len(clues.weights)}
            return count, fact("layout.some_parts", rank=count, **numbers), False
    return stage, fact("layout.other_parts"), True


def _stages(
    clues: Clues, rank_size: int, read: Callable[[int], Side]
) -> tuple[int | None, Fact | str | None]:
    """The number of stages and how it is known, or None and why it is not."""
    # The backward pass of a ring is recorded behind the attention, but goes between the same ranks.
    peers = sorted(peer for peer in clues.peers - clues.ring if 0 < peer < rank_size)
    if peers:
        if rank_size % peers[0]:
            return None, (
                f"rank 0 sends to rank {peers[0]}, which divides {rank_size} ranks into no equal "
                "stages, so dumps may be missing"
            )
        next_one = read_clues(read(peers[0]))
        if next_one.modules == clues.modules and (
            clues.has_words or (clues.held and next_one.held == clues.held)
        ):
            end = "words enter the model on both" if clues.has_words else "their weights are equal"
            return (
                None,
                f"rank 0 sends to rank {peers[0]}, but both run the same modules, and {end}",
            )
        return rank_size // peers[0], fact("layout.sends", rank=peers[0])
    if rank_size == 1:
        return 1, None
    if not clues.has_words:
        starts = [rank_size // count for count in range(2, rank_size + 1) if rank_size % count == 0]
        others = [read_clues(read(rank)) for rank in starts]
        if clues.held and all(
            (one.modules, one.held) == (clues.modules, clues.held) for one in others
        ):
            return 1, fact("layout.all_alike")
        return None, (
            "neither sends between stages nor an embedding on the first rank tell the number of "
            "pipeline stages"
        )
    for count in range(rank_size, 1, -1):
        stage = rank_size // count
        if rank_size % count == 0 and not read_clues(read(stage)).has_words:
            return count, fact("layout.words_first", count=stage)
    return 1, fact("layout.words_everywhere")


def parse_side(value: object, where: str) -> ParallelLayout | AutoLayout:
    """One side of ``parallel_merge``: sizes, ``"auto"``, or sizes some of which are ``"auto"``."""
    if value == "auto":
        return AutoLayout({}, where)
    if isinstance(value, Mapping) and "auto" in [one for one in value.values() if one == "auto"]:
        known = {str(key): one for key, one in value.items() if one != "auto"}
        sizes = {"rank_size": 1, "tp": 1, "pp": 1, **dict.fromkeys(value, 1), **known}
        if "order" in value:
            sizes["order"] = value["order"]
        _check_words(sizes, where)
        rank_size = known.pop("rank_size", None)
        return AutoLayout(known, where, None if rank_size is None else int(str(rank_size)))
    return parse_layout(value, where)


def _check_words(sizes: Mapping[str, object], where: str) -> None:
    """Refuse unknown keys and sizes that are none, before anything is read."""
    alone = {key: one for key, one in sizes.items() if key not in OPTIONAL or key == "order"}
    parse_layout({"rank_size": sizes["rank_size"], "tp": 1, "pp": 1}, where)
    product = 1
    for key in ("tp", "pp"):
        size = sizes[key]
        product *= size if isinstance(size, int) and size > 0 else 1
    parse_layout({**alone, "rank_size": product}, where)
