"""How ranks were split, read from what they recorded: groups of collectives, peers of sends, names.

The first rank tells most. A reduction or a gathering inside a parallel layer runs over the
tensor-parallel group, and its ranks hold other parts of the weights; an exchange around experts
runs over the expert-parallel group, what attention gathers, exchanges or sends in a ring over the
context-parallel group; the nearest peer of the sends between stages is as many ranks away as a
stage has. What is left are replicas. What nothing recorded tells must be declared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from msprobe_builder.base.errors import UsageError
from msprobe_builder.dump.names import Direction, Kind, Name, module_path
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.flow.experts import expert_owners, expert_place
from msprobe_builder.merge.flow.operators import GATHERS, PEER_CALLS, REDUCTIONS, operator_of
from msprobe_builder.merge.flow.parallel_layers import module_class, parameter_state
from msprobe_builder.merge.flow.share import Share
from msprobe_builder.merge.ranks.layout import OPTIONAL, ParallelLayout, parse_layout
from msprobe_builder.merge.ranks.placements import cut_dimension, placements
from msprobe_builder.merge.ranks.rank_tables import parse_numbers

_EXCHANGES = frozenset({"all_to_all_single", "all_to_all"})
_PARALLEL = re.compile(r"ColumnParallel|RowParallel|VocabParallel|QKVParallel|ParallelLMHead")
_ATTENTION = re.compile(r"attention|attn", re.IGNORECASE)
_CHUNK = re.compile(r"Module\.(\d+)\.")
_PEER = re.compile(r"input\.(?:1|dst|src|group_dst|group_src|(?:\d+\.)+peer)\Z")


@dataclass(frozen=True)
class AutoLayout:
    """A layout to be found; ``declared`` are the sizes that are known and win over all others."""

    declared: Mapping[str, object] = field(default_factory=dict)
    where: str = "parallel_merge"


@dataclass(frozen=True)
class FoundLayout:
    """What was found, in one sentence, and whether all of it was recorded or declared."""

    layout: ParallelLayout
    sentence: str
    is_sure: bool


@dataclass
class _Clues:
    """Of one rank: the groups of each kind of collective, the peers of sends, the model chunks."""

    tensor: set[tuple[int, ...]] = field(default_factory=set)
    expert: set[tuple[int, ...]] = field(default_factory=set)
    context: set[tuple[int, ...]] = field(default_factory=set)
    peers: set[int] = field(default_factory=set)
    ring: set[int] = field(default_factory=set)  # peers of sends within attention
    attention_talks: bool = False
    chunks: set[int] = field(default_factory=set)
    weights: dict[tuple[str, str], bytes] = field(default_factory=dict)  # of parallel layers
    has_words: bool = False
    has_calls: bool = False


def find_layout(auto: AutoLayout, rank_size: int, read: Callable[[int], Side]) -> FoundLayout:
    """Find the layout of ``rank_size`` ranks; ``read`` gives a rank.

    UsageError when what was recorded fits no layout: it must be declared then.
    """
    clues = _clues(read(0), rank_size)
    declared = dict(auto.declared)
    sizes: dict[str, object] = {}
    why: dict[str, str] = {}
    pp, why["pp"] = _stages(clues, rank_size, read)
    if pp is None and "pp" not in declared:
        raise UsageError(
            f"{auto.where}: neither sends between stages nor an embedding on the first rank tell "
            "the number of pipeline stages; declare pp."
        )
    sizes["pp"] = pp or 1
    told = declared.get("pp", pp)
    stage = rank_size // told if isinstance(told, int) and 0 < told <= rank_size else rank_size
    sizes["tp"], why["tp"] = _parts(clues, stage, read)
    for name, groups, words in (
        ("ep", clues.expert, "exchanges around experts over ranks {}"),
        ("cp", clues.context - clues.tensor, "attention gathers or exchanges over ranks {}"),
    ):
        group = min((one for one in groups if 0 in one and len(one) > 1), key=len, default=None)
        of_tensors = range(int(str(sizes["tp"])))
        if name == "cp" and group == (*of_tensors,):
            group = None  # of layers that hold their parallel layers themselves
        sizes[name] = 1 if group is None else len(group)
        why[name] = "" if group is None else words.format(_shown(group))
        if name == "ep" and len(of_tensors) > 1 and group is not None:
            # Ranks of one tensor-parallel group that exchange tokens hold other, whole experts.
            sizes["etp"] = 1 if len({*group} & {*of_tensors}) > 1 else len(of_tensors)
    ring = sorted(peer for peer in clues.ring if 0 < peer < rank_size)
    if sizes["cp"] == 1 and ring and ring[-1] % ring[0] == 0:
        sizes["cp"] = ring[-1] // ring[0] + 1
        why["cp"] = f"sends within attention between rank 0 and {', '.join(map(str, ring))}"
    sizes["vpp"] = max(len(clues.chunks), 1) if sizes["pp"] != 1 else 1
    if sizes["vpp"] != 1:
        why["vpp"] = "model chunks in names of modules"
    for name, size in declared.items():
        if name in sizes and size != sizes[name] and why.get(name):
            why[name] = f"declared, though the dump tells {sizes[name]}: {why[name]}"
        else:
            why[name] = "declared"
    layout = parse_layout({"rank_size": rank_size, **sizes, **declared}, auto.where)
    own = layout.sizes()
    if layout.etp != layout.tp:
        own["etp"] = layout.etp
        why.setdefault("etp", "ranks of one tensor-parallel group exchange tokens")
    why["dp"] = "what is left" if layout.dp > 1 else ""
    is_open = clues.attention_talks and layout.cp == 1
    is_sure = layout.dp == 1 or "cp" in declared or (clues.has_calls and not is_open)
    words = ", ".join(
        f"{name} {size}" + (f" ({why[name]})" if why.get(name) else "")
        for name, size in own.items()
        if size > 1 or name in ("tp", "pp", "etp") or name in declared
    )
    end = "" if is_sure else "; nothing tells dp from cp for sure: declare cp if there is any"
    ranks = f"{rank_size} ranks were" if rank_size > 1 else "1 rank was"
    return FoundLayout(layout, f"{ranks} found to be {words}{end}.", is_sure)


def _shown(group: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, group[:8]))}{', …' if len(group) > 8 else ''}]"


def _clues(side: Side, rank_size: int) -> _Clues:
    clues = _Clues()
    tree, texts = side.tree, side.dump.parameters.texts.values
    owners = expert_owners(tree)
    for name in tree.parsed:
        if name.kind is Kind.MODULE:
            kind = module_class(name)
            clues.has_words |= "Embedding" in kind and "Rotary" not in kind
            if chunk := _CHUNK.match(name.stem):
                clues.chunks.add(int(chunk[1]))
    table = side.table
    # Ranks hold other experts, too, whose layers say nothing of how each is cut.
    of_layers = [
        bool(_PARALLEL.search(module_class(name))) and expert_place(name.stem) is None
        for name in tree.parsed
    ]
    distributed = placements(table, side.dump.parameters.texts)
    for row in np.flatnonzero(table.section == Section.PARAMETERS).tolist():
        node = int(table.node[row])
        if cut_dimension(distributed.get(row, "")) is not None:
            key = tree.names[node], texts[int(table.name_id[row])]
            clues.weights[key] = table.statistics[:, row].tobytes()
            continue
        is_cut = parameter_state(module_class(tree.parsed[node]), texts[int(table.name_id[row])])
        if of_layers[node] and is_cut.share is Share.SHARD:
            key = tree.names[node], texts[int(table.name_id[row])]
            clues.weights[key] = table.statistics[:, row].tobytes()
    clues.has_calls = any(name.kind is Kind.API for name in tree.parsed)
    recorded = dict(_groups(side))
    for node, name in enumerate(tree.parsed):
        if name.stem in PEER_CALLS:
            is_ring = _is_in_attention(side, node)
            clues.attention_talks |= is_ring
            (clues.ring if is_ring else clues.peers).update(_peers(side, node, texts))
            continue
        operator = operator_of(name)
        if not name.stem.startswith("Distributed."):
            continue
        group = recorded.get(node, tuple(range(rank_size)))
        above = tree.parsed[int(tree.parent[node])]
        if operator in _EXCHANGES and module_path(above.stem) in owners:
            clues.expert.add(group)
        elif (operator in REDUCTIONS or operator in GATHERS) and _is_parallel(above):
            clues.tensor.add(group)
        elif node not in recorded and _is_in_attention(side, node):
            clues.attention_talks = True
        elif (operator in GATHERS or operator in _EXCHANGES) and _is_in_attention(side, node):
            clues.context.add(group)
    return clues


def _is_parallel(name: Name) -> bool:
    return bool(_PARALLEL.search(module_class(name)))


def _is_in_attention(side: Side, node: int) -> bool:
    """Whether a call stands in the forward pass of attention; behind backward it is misplaced."""
    while node > 0:
        node = int(side.tree.parent[node])
        name = side.tree.parsed[node]
        if _ATTENTION.search(name.stem):
            return name.direction is Direction.FORWARD
    return False


def _groups(side: Side) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The ranks of each collective that names a group."""
    table, values = side.table, side.dump.parameters.texts.values
    columns = table.node.tolist(), table.type_id.tolist(), table.value_id.tolist()
    for node, type_id, value_id in zip(*columns, strict=True):
        if type_id >= 0 and value_id >= 0 and values[type_id].endswith("ProcessGroup"):
            yield node, tuple(sorted(parse_numbers(values[value_id]) or ()))


def _peers(side: Side, node: int, texts: list[str]) -> Iterator[int]:
    """The ranks that a call sends to or receives from."""
    table = side.table
    begin, end = table.node.searchsorted([node, node + 1]).tolist()
    for row in range(begin, end):
        if table.value_id[row] >= 0 and _PEER.match(texts[int(table.name_id[row])]):
            yield from parse_numbers(texts[int(table.value_id[row])]) or ()


def _parts(clues: _Clues, stage: int, read: Callable[[int], Side]) -> tuple[int, str]:
    """In how many parts the layers of a stage of so many ranks are cut, and how it is known."""
    group = min((one for one in clues.tensor if 0 in one and len(one) > 1), key=len, default=None)
    if group is not None and group == (*range(len(group)),) and stage % len(group) == 0:
        return len(group), f"collectives of parallel layers over ranks {_shown(group)}"
    if not clues.weights or stage == 1:
        return 1, "" if clues.weights else "no layer is of a parallel class"
    for count in range(1, stage):
        if stage % count == 0 and _clues(read(count), stage).weights == clues.weights:
            others = "rank 1 holds" if count == 1 else f"rank {count} holds"
            return count, f"{others} the same parts of parallel layers as rank 0"
    return stage, "every rank of a stage holds other parts of parallel layers"


def _stages(clues: _Clues, rank_size: int, read: Callable[[int], Side]) -> tuple[int | None, str]:
    """The number of stages, and how it is known; None when nothing tells."""
    # The way back of a ring is recorded behind the attention, but goes between the same ranks.
    peers = sorted(peer for peer in clues.peers - clues.ring if 0 < peer < rank_size)
    if peers:
        if rank_size % peers[0]:
            raise UsageError(
                f"Rank 0 sends to rank {peers[0]}, which divides {rank_size} ranks into no equal "
                "stages; declare pp in parallel_merge."
            )
        return rank_size // peers[0], f"sends between ranks 0 and {peers[0]}"
    if not clues.has_words or rank_size == 1:
        return (1, "") if rank_size == 1 else (None, "")
    for count in range(rank_size, 1, -1):
        if rank_size % count == 0 and not _clues(read(rank_size // count), rank_size).has_words:
            return count, f"words enter the model on the first {rank_size // count} ranks only"
    return 1, "words enter the model on every rank"


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
        return AutoLayout({key: one for key, one in known.items() if key != "rank_size"}, where)
    return parse_layout(value, where)


def _check_words(sizes: Mapping[str, object], where: str) -> None:
    """Refuse unknown keys and sizes that are none, before anything is read."""
    alone = {key: one for key, one in sizes.items() if key not in OPTIONAL or key == "order"}
    product = 1
    for key in ("tp", "pp"):
        size = sizes[key]
        product *= size if isinstance(size, int) and size > 0 else 1
    parse_layout({**alone, "rank_size": product}, where)
