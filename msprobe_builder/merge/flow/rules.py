"""What a call makes of shards, replicas and partial results: rules in order, the first one decides.

Each rule looks at one output of one call and says what it is, or nothing. Its reason is told with
the merged value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.merge.flow.dimensions import (
    Cut,
    broadcast_from,
    output_cut,
    shrunk,
    summed_cut,
)
from msprobe_builder.merge.flow.knowledge import Knowledge
from msprobe_builder.merge.flow.operators import is_linear, is_product, shrinks
from msprobe_builder.merge.flow.share import LOCAL, REPLICA, UNKNOWN, Share, State
from msprobe_builder.operators import questions
from msprobe_builder.operators.operator import Operator
from msprobe_builder.operators.table import is_in_place


@dataclass(frozen=True)
class Output:
    """One output of a call: its ``row``, and the rows of the tensors that the call took in.

    What goes into the call uninitialised is not among the ``inputs``; ``shares`` are theirs.
    """

    known: Knowledge
    node: int
    operator: Operator
    inputs: list[int]
    row: int
    shares: frozenset[Share]

    @cached_property
    def shape(self) -> list[int]:
        """The shape on the first rank."""
        return self.known.ranks.shape(self.row)

    @property
    def agrees(self) -> bool:
        """Whether its statistics are equal on all ranks."""
        return bool(self.known.ranks.agree[self.row])

    @property
    def whole(self) -> State:
        """A replica, or the share that each rank has of one where they differ."""
        return REPLICA if self.agrees else State(Share.PARTIAL)

    @cached_property
    def depends_on_rank(self) -> bool:
        """Whether an argument of the call that is no tensor differs between the ranks.

        Places and masks of a rank are whole numbers; another epsilon or scale is a mistake.
        """
        ranks = self.known.ranks
        is_mistake = ranks.factors_differ(self.node) and not ranks.is_whole_number(self.row)
        return ranks.depends_on_rank(self.node) and not is_mistake

    @cached_property
    def shards(self) -> list[int]:
        """The inputs that are shards."""
        return [row for row in self.inputs if self.known.state[row].share is Share.SHARD]

    @cached_property
    def shard_shapes(self) -> list[list[int]]:
        """Their shapes on the first rank."""
        return [self.known.ranks.shape(row) for row in self.shards]

    @cached_property
    def twin(self) -> int | None:
        """The forward call of a backward call."""
        name = self.known.tree.parsed[self.node]
        if name.direction is not Direction.BACKWARD:
            return None
        return self.known.number.get(name._replace(direction=Direction.FORWARD))

    @cached_property
    def taken_forward(self) -> list[int]:
        """What the forward call took in."""
        return [] if self.twin is None else self.known.ranks.tensors(self.twin, Section.INPUT)

    @cached_property
    def took_in_local(self) -> bool:
        """Whether the forward call took in what each rank has for itself, such as a mask."""
        states = (self.known.state[row].share for row in self.taken_forward)
        return any(share in (Share.LOCAL, Share.UNKNOWN) for share in states)

    @cached_property
    def is_gradient(self) -> bool:
        """Whether a backward call made it, and did not only pass on what came in."""
        keys = self.known.ranks.keys
        return self.twin is not None and keys[self.row] not in {
            keys[row] for row in self.known.ranks.tensors(self.node, Section.INPUT)
        }

    @cached_property
    def gradient_of(self) -> frozenset[Share]:
        """The shares of the tensors that it may be the gradient of: those of its shape."""
        return frozenset(
            self.known.state[row].share
            for row in self.taken_forward
            if self.known.ranks.shape(row) == self.shape
            and not self.known.ranks.is_whole_number(row)
        )


class Rule(NamedTuple):
    """A ``name`` for people who follow the flow, a ``reason`` for those who read a value."""

    name: str
    reason: Fact | None
    decide: Callable[[Output], State | None]


def decide(output: Output) -> State:
    """What the first rule that fits says of an output."""
    for rule in RULES:
        state = rule.decide(output)
        if state is not None:
            return state.because(rule.reason)
    raise AssertionError("the last rule decides")


def _reduced(output: Output) -> State | None:
    result = output.known.reduced.get(output.known.ranks.keys[output.row])
    return None if result is None else State(Share.PARTIAL, None, result)


def _looked_up(output: Output) -> State | None:
    """In an embedding cut by words the rest of a row is masked, and the reduction adds it."""
    known = output.known
    if "rows" not in output.operator.shards or output.twin is not None:
        return None
    total = known.total_of_words(output.row)
    return None if total is None else State(Share.PARTIAL, None, total)


def _uninitialised(output: Output) -> State | None:
    if not questions.is_uninitialised(output.operator):
        return None
    output.known.note_uninitialised(output.row)
    return UNKNOWN


def _updated_in_place(output: Output) -> State | None:
    known = output.known
    if not output.inputs or not is_in_place(known.tree.parsed[output.node].stem):
        return None
    weight = output.inputs[0]
    is_weight = known.ranks.keys[weight] in known.whole_weights
    if not is_weight or known.ranks.shape(weight) != output.shape:
        return None
    known.whole_weights.add(known.ranks.keys[output.row])
    return REPLICA


def _masked_gradient(output: Output) -> State | None:
    if not output.is_gradient or not output.took_in_local or output.shares != {Share.REPLICA}:
        return None
    return REPLICA if output.agrees else UNKNOWN


def _gradient_of_shard(output: Output) -> State | None:
    is_one = output.is_gradient and output.gradient_of == {Share.SHARD}
    return State(Share.SHARD) if is_one else None


def _gradient_of_replica(output: Output) -> State | None:
    is_of_shards = Share.SHARD in output.shares and Share.UNKNOWN not in output.shares
    if not output.is_gradient or not is_of_shards:
        return None
    return output.whole if output.gradient_of == {Share.REPLICA} else None


def _gradient_of_broadcast(output: Output) -> State | None:
    is_of_shards = Share.SHARD in output.shares and Share.UNKNOWN not in output.shares
    if not output.is_gradient or not is_of_shards:
        return None
    for row in output.known.ranks.tensors(output.node, Section.INPUT):
        cut, source = output.known.state[row].cut, output.known.ranks.shape(row)
        before = broadcast_from(cut, source, output.shape) if cut is not None else None
        if before and before[0]:
            return output.whole
    return None


def _masked_later(output: Output) -> State | None:
    is_of_replicas = output.shares == {Share.REPLICA} and not output.agrees
    return LOCAL if is_of_replicas and output.took_in_local else None


def _of_unknown(output: Output) -> State | None:
    return UNKNOWN if Share.UNKNOWN in output.shares else None


def _of_other_factors(output: Output) -> State | None:
    """One that is a mistake shows in a replica of which the ranks disagree."""
    if output.shares != {Share.REPLICA} or prod(output.shape) < 2:
        return None
    ranks = output.known.ranks
    is_alike = not ranks.is_whole_number(output.row) and ranks.factors_differ(output.node)
    return REPLICA if is_alike else None


def _taken_by_rank(output: Output) -> State | None:
    """A slice whose place depends on the rank, of the size that cuts the whole into such parts."""
    is_slice = "slice" in output.operator.shards and output.twin is None and len(output.inputs) == 1
    if not is_slice or output.agrees or not output.depends_on_rank:
        return None
    [row] = output.inputs
    ranks, state = output.known.ranks, output.known.state[row]
    source = ranks.shape(row)
    if state.share not in (Share.REPLICA, Share.SHARD) or len(source) != len(output.shape):
        return None
    differ = [at for at, size in enumerate(source) if size != output.shape[at]]
    if len(differ) != 1 or (state.cut is not None and [state.cut.dimension] != differ):
        return None
    held = 1 if state.share is Share.REPLICA else ranks.parts(row)
    [place] = differ
    if source[place] * held != output.shape[place] * ranks.parts(output.row):
        return None
    return State(Share.SHARD, Cut(place))


def _counted_twice(output: Output) -> State | None:
    """Positions of parts follow each other; where they overlap they are meant to be the same."""
    if output.operator.name != "arange" or not output.depends_on_rank or output.twin is not None:
        return None
    return REPLICA if output.known.ranks.spans_overlap(output.row) else None


def _of_own_numbers(output: Output) -> State | None:
    if not output.shares <= {Share.REPLICA, Share.LOCAL}:
        return None
    return LOCAL if Share.LOCAL in output.shares or output.depends_on_rank else None


def _of_mixed_numbers(output: Output) -> State | None:
    return UNKNOWN if Share.LOCAL in output.shares or output.depends_on_rank else None


def _of_partial(output: Output) -> State | None:
    if Share.PARTIAL not in output.shares:
        return None
    return REPLICA if output.agrees and Share.SHARD not in output.shares else UNKNOWN


def _of_replicas(output: Output) -> State | None:
    return REPLICA if output.inputs and Share.SHARD not in output.shares else None


def _of_nothing(output: Output) -> State | None:
    return output.known.by_numbers(output.row) if Share.SHARD not in output.shares else None


def _is_product_of_shards(output: Output) -> bool:
    is_pair = len(output.shards) > 1 and any(len(one) == 2 for one in output.shard_shapes)
    return is_product(output.operator) and is_pair


def _gathering_product(output: Output) -> State | None:
    cut = output.known.state[output.shards[0]].cut
    is_of_rows = cut is not None and cut.dimension < len(output.shard_shapes[0]) - 1
    if not _is_product_of_shards(output) or not is_linear(output.operator) or not is_of_rows:
        return None
    return State(Share.SHARD, Cut(len(output.shape) - 1))


def _partial_product(output: Output) -> State | None:
    return State(Share.PARTIAL) if _is_product_of_shards(output) else None


def _summed(output: Output) -> State | None:
    """A sum by indices says itself what becomes of each dimension."""
    known = output.known
    if "indices" not in output.operator.shards or output.twin is not None:
        return None
    if any(known.state[row].cut is None for row in output.shards):
        return State(Share.SHARD)
    found = summed_cut(
        known.ranks.argument(output.node, "input.0") or "",
        [known.state[row].cut for row in output.inputs],
        [known.ranks.shape(row) for row in output.inputs],
    )
    if found is None:
        return State(Share.SHARD)
    is_summed, cut = found
    return State(Share.PARTIAL) if is_summed else State(Share.SHARD, cut)


def _shrunk(output: Output) -> State | None:
    source = output.shard_shapes[0]
    if not shrinks(output.operator) or prod(output.shape) >= prod(source):
        return None
    cut = output.known.state[output.shards[0]].cut
    if cut is None:
        return UNKNOWN
    numbers = output.known.ranks.numbers(output.node)
    is_removed, left = shrunk(cut, source, output.shape, numbers)
    if is_removed:
        return LOCAL
    return State(Share.SHARD, left) if left else UNKNOWN


def _gathered(output: Output) -> State | None:
    is_written = questions.places(output.operator)  # rows of indices say where
    source, cut = output.shard_shapes[0], output.known.state[output.shards[0]].cut
    is_same_size = prod(output.shape) in (prod(source), 0)
    is_stretched = len(source) == len(output.shape) and (
        cut is not None and source[cut.dimension] == output.shape[cut.dimension]
    )
    is_of_all = prod(output.shape) == prod(source) * output.known.ranks.count
    is_left = is_same_size or (is_stretched and not is_of_all) or is_written
    return REPLICA if output.agrees and not is_left else None


def _of_shards(output: Output) -> State:
    known = output.known
    cuts = [known.state[row].cut for row in output.shards]
    cut = output_cut(
        output.operator,
        known.tree.parsed[output.node].direction,
        [*zip(cuts, output.shard_shapes, strict=True)],
        output.shape,
        known.ranks.numbers(output.node),
        joins_batch=known.ranks.keys[output.row] in known.batch_first,
    )
    return State(Share.SHARD, cut)


RULES = (
    Rule("reduced", fact("reason.reduced"), _reduced),
    Rule(
        "looked up",
        fact("reason.looked_up"),
        _looked_up,
    ),
    Rule("uninitialised", fact("reason.unwritten"), _uninitialised),
    Rule("updated in place", fact("reason.updated_alike"), _updated_in_place),
    Rule(
        "masked gradient",
        fact("reason.masked_gradient"),
        _masked_gradient,
    ),
    Rule("gradient of a shard", fact("reason.gradient_of_shard"), _gradient_of_shard),
    Rule(
        "gradient of a replica",
        fact("reason.gradient_of_replica"),
        _gradient_of_replica,
    ),
    Rule(
        "gradient of a broadcast",
        fact("reason.gradient_of_broadcast"),
        _gradient_of_broadcast,
    ),
    Rule("masked later", fact("reason.forward_of_own"), _masked_later),
    Rule("of something unknown", fact("reason.of_unknown"), _of_unknown),
    Rule(
        "of other factors",
        fact("reason.of_other_factors"),
        _of_other_factors,
    ),
    Rule("taken by rank", fact("reason.own_slice"), _taken_by_rank),
    Rule("counted twice", fact("reason.counted_twice"), _counted_twice),
    Rule("of own numbers", fact("reason.of_own"), _of_own_numbers),
    Rule(
        "of mixed numbers",
        fact("reason.of_shards_and_own"),
        _of_mixed_numbers,
    ),
    Rule("of partial results", fact("reason.of_partial"), _of_partial),
    Rule("of replicas", fact("reason.of_replicas"), _of_replicas),
    Rule("of nothing", None, _of_nothing),
    Rule(
        "gathering product",
        fact("reason.gathering_product"),
        _gathering_product,
    ),
    Rule("partial product", fact("reason.partial_product"), _partial_product),
    Rule("summed", fact("reason.indices"), _summed),
    Rule("shrunk", fact("reason.shrunk"), _shrunk),
    Rule("gathered", fact("reason.gathered_itself"), _gathered),
    Rule("of shards", fact("reason.of_shards"), _of_shards),
)
