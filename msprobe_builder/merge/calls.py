"""What a call makes of shards, replicas and partial results."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from msprobe_builder.dump.names import UNINITIALISED, Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.merge.dimensions import Cut, broadcast_from, factor_cuts, output_cut, shrunk
from msprobe_builder.merge.knowledge import Knowledge
from msprobe_builder.merge.landmarks import is_over_group
from msprobe_builder.merge.operators import (
    ALL_REDUCTIONS,
    GATHERS,
    JOINS,
    LINEARS,
    PEER_CALLS,
    PRODUCTS,
    REDUCTIONS,
    SHRINKING,
    operator_of,
)
from msprobe_builder.merge.share import LOCAL, REPLICA, UNKNOWN, Share, State


def follow(
    known: Knowledge,
    enter: Callable[[Knowledge, int], None],
    leave: Callable[[Knowledge, int], None],
) -> list[State]:
    """Go through all calls in order; ``enter`` and ``leave`` are called for modules."""
    _walk(known, enter, leave)
    if any(known.is_open(row) for row in range(len(known.state))):
        known.start_again()
        _walk(known, enter, leave)  # now with what later calls told of tensors made before
    return [known.looked_back(row) for row in range(len(known.state))]


def _walk(
    known: Knowledge,
    enter: Callable[[Knowledge, int], None],
    leave: Callable[[Knowledge, int], None],
) -> None:
    open_modules: list[int] = []
    for node in range(len(known.tree)):
        while open_modules and known.tree.subtree_end[open_modules[-1]] < node:
            leave(known, open_modules.pop())
        if known.tree.parsed[node].kind is Kind.API:
            _follow_call(known, node)
        else:
            enter(known, node)
            open_modules.append(node)
    while open_modules:
        leave(known, open_modules.pop())


def _follow_call(known: Knowledge, node: int) -> None:
    name = known.tree.parsed[node]
    operator = operator_of(name)
    inputs = known.ranks.tensors(node, Section.INPUT, Section.PARAMETERS, Section.PARAMETERS_GRAD)
    outputs = known.ranks.tensors(node, Section.OUTPUT)
    for row in inputs:
        key = known.ranks.keys[row]
        if key in known.made_uninitialised:
            known.uninitialised.add(row)
        known.put(row, known.look_up(row) or known.by_numbers(row))
    is_collective = name.stem.startswith("Distributed.") or (
        operator in REDUCTIONS and name.direction is Direction.FORWARD
    )
    if is_collective and is_over_group(known.ranks, node, known.group):
        _collective(known, operator, inputs, outputs)
        return
    if name.stem in PEER_CALLS:
        for row in outputs:  # each rank has a peer of its own, and what came in is new
            known.put(row, known.look_up(row) or known.by_numbers(row))
        return
    _correct_inputs(known, operator, inputs, outputs)
    inputs = [row for row in inputs if row not in known.uninitialised]
    shares = {known.state[row].share for row in inputs}
    passed_on = {known.ranks.keys[row] for row in inputs}
    for row in outputs:
        state = _output(known, node, operator, inputs, row, shares)
        # Backward of a product shows what came in as rows; a weight can have the same shape.
        is_certain = operator in PRODUCTS and known.ranks.keys[row] in passed_on
        known.put(row, state, is_certain=is_certain and state.cut is not None)


def _correct_inputs(known: Knowledge, operator: str, inputs: list[int], outputs: list[int]) -> None:
    """Conclude from the inputs that are known how the others must be cut."""
    shards = [row for row in inputs if known.state[row].share is Share.SHARD]
    if not shards and operator not in PRODUCTS:
        _conclude_from_output(known, inputs, outputs)
    if not shards:
        return
    if operator in PRODUCTS:
        factors = [row for row in inputs if len(known.ranks.shape(row)) > 1]
        if len(factors) == 2:
            cuts = [known.state[row].cut if row in shards else None for row in factors]
            fitting = factor_cuts(
                cuts,
                [row in shards for row in factors],
                [len(known.ranks.shape(r)) for r in factors],
                is_linear=operator in LINEARS,
            )
            for row, cut in zip(factors, fitting, strict=True):
                if cut is not None:
                    known.correct(row, cut)
        return
    shape = known.ranks.shape(outputs[0]) if outputs else []
    for row in inputs:
        if known.state[row].share is Share.SHARD and known.state[row].cut is not None:
            continue
        own = known.ranks.shape(row)
        for other in shards:
            cut = known.state[other].cut
            if cut is None or cut.dimension >= len(own):
                continue
            # Beside a shard of the same shape, or empty, in a call that works by element.
            alike_shape = own == known.ranks.shape(other) == shape and own[cut.dimension] > 1
            if alike_shape or (operator in JOINS and 0 in own):
                known.correct(row, cut)
                known.uninitialised.discard(row)
                break


def _conclude_from_output(known: Knowledge, inputs: list[int], outputs: list[int]) -> None:
    """What later calls told of an output holds for an unknown input of the same shape."""
    found = known.look_up(outputs[0]) if outputs else None
    if found is None or found.share is not Share.SHARD or found.cut is None:
        return
    for row in inputs:
        is_alike = known.ranks.shape(row) == known.ranks.shape(outputs[0])
        if is_alike and known.state[row].share is Share.UNKNOWN:
            known.correct(row, found.cut)


def _collective(known: Knowledge, operator: str, inputs: list[int], outputs: list[int]) -> None:
    place = REDUCTIONS.get(operator, (0, 0))[1]
    for position, row in enumerate(outputs):
        if position != place:  # an argument, shown once more
            known.put(row, known.look_up(row) or known.by_numbers(row))
        elif operator in ALL_REDUCTIONS or operator in GATHERS:
            known.put(row, REPLICA)
        elif operator in REDUCTIONS:
            known.put(row, State(Share.SHARD, Cut(0)))
        else:
            known.put(row, known.by_numbers(row))
    if operator in GATHERS and len(inputs) > 1:
        known.correct(inputs[-1], Cut(0))


def _output(
    known: Knowledge, node: int, operator: str, inputs: list[int], row: int, shares: set[Share]
) -> State:
    result = known.reduced.get(known.ranks.keys[row])
    if result is not None:
        return State(Share.PARTIAL, None, result)
    if operator in UNINITIALISED:
        known.uninitialised.add(row)
        known.made_uninitialised.add(known.ranks.keys[row])
        return UNKNOWN
    if inputs and _is_update(known, operator, inputs[0], row):
        known.whole_weights.add(known.ranks.keys[row])
        return REPLICA
    of_gradient = _gradient(known, node, row, shares)
    if of_gradient is not None:
        return of_gradient
    if shares == {Share.REPLICA} and not known.ranks.agree[row] and _took_in_local(known, node):
        return LOCAL
    if Share.UNKNOWN in shares:
        return UNKNOWN
    if shares <= {Share.REPLICA, Share.LOCAL} and (
        Share.LOCAL in shares or known.ranks.depends_on_rank(node)
    ):
        return LOCAL
    if Share.LOCAL in shares or known.ranks.depends_on_rank(node):
        return UNKNOWN
    if Share.PARTIAL in shares:
        return REPLICA if known.ranks.agree[row] and Share.SHARD not in shares else UNKNOWN
    if Share.SHARD not in shares:
        return REPLICA if inputs else known.by_numbers(row)
    shards = [own for own in inputs if known.state[own].share is Share.SHARD]
    shapes = [known.ranks.shape(own) for own in shards]
    if operator in PRODUCTS and len(shards) > 1 and any(len(one) == 2 for one in shapes):
        first = known.state[shards[0]].cut
        if operator in LINEARS and first is not None and first.dimension < len(shapes[0]) - 1:
            # Slices of a sequence, which the function gathers itself.
            return State(Share.SHARD, Cut(len(known.ranks.shape(row)) - 1))
        return State(Share.PARTIAL)
    shape = known.ranks.shape(row)
    numbers = known.ranks.numbers(node)
    first = known.state[shards[0]].cut
    if operator in SHRINKING and prod(shape) < prod(shapes[0]):
        is_removed, cut = shrunk(first, shapes[0], shape, numbers) if first else (False, None)
        if is_removed:
            return LOCAL
        return State(Share.SHARD, cut) if cut else UNKNOWN
    is_written = operator.startswith("scatter")  # rows of indices say where
    if known.ranks.agree[row] and prod(shape) not in (prod(shapes[0]), 0) and not is_written:
        return REPLICA  # gathered or reduced by the call itself
    cut = output_cut(
        operator,
        known.tree.parsed[node].direction,
        [(known.state[own].cut, one) for own, one in zip(shards, shapes, strict=True)],
        shape,
        numbers,
        joins_batch=known.ranks.keys[row] in known.batch_first,
    )
    return State(Share.SHARD, cut)


def _is_update(known: Knowledge, operator: str, weight: int, row: int) -> bool:
    """Whether a call works on a replicated weight in place.

    It is to stay one: ranks that update it differently drift apart.
    """
    is_in_place = operator.endswith("_") and not operator.endswith("__")
    is_weight = known.ranks.keys[weight] in known.whole_weights
    return is_in_place and is_weight and known.ranks.shape(weight) == known.ranks.shape(row)


def _forward_twin(known: Knowledge, node: int) -> int | None:
    """The forward call that a backward call belongs to."""
    name = known.tree.parsed[node]
    if name.direction is not Direction.BACKWARD:
        return None
    return known.number.get(name._replace(direction=Direction.FORWARD))


def _took_in_local(known: Knowledge, node: int) -> bool:
    """Whether the forward call of a backward call took in what each rank has for itself.

    Such as a mask, by which the gradient is masked as well.
    """
    twin = _forward_twin(known, node)
    return twin is not None and any(
        known.state[own].share in (Share.LOCAL, Share.UNKNOWN)
        for own in known.ranks.tensors(twin, Section.INPUT)
    )


def _gradient(known: Knowledge, node: int, row: int, shares: set[Share]) -> State | None:
    """What the output of a backward call is by the tensor that it is the gradient of.

    The gradient of a shard is one. Of a replica each rank has but its share when the gradients
    that came in were shards. None when neither can be told.
    """
    twin = _forward_twin(known, node)
    if twin is None:
        return None
    passed_on = {known.ranks.keys[own] for own in known.ranks.tensors(node, Section.INPUT)}
    if known.ranks.keys[row] in passed_on:
        return None  # what came in, in another shape perhaps
    shape = known.ranks.shape(row)
    inputs = [
        own
        for own in known.ranks.tensors(twin, Section.INPUT)
        if known.ranks.shape(own) == shape and not known.ranks.is_whole_number(own)
    ]
    of = {known.state[own].share for own in inputs}
    beside = {known.state[own].share for own in known.ranks.tensors(twin, Section.INPUT)}
    if beside & {Share.LOCAL, Share.UNKNOWN} and shares == {Share.REPLICA}:
        return REPLICA if known.ranks.agree[row] else UNKNOWN  # such as one masked by each rank
    if of == {Share.SHARD}:
        return State(Share.SHARD)
    if Share.SHARD not in shares or Share.UNKNOWN in shares:
        return None
    if of == {Share.REPLICA}:
        return REPLICA if known.ranks.agree[row] else State(Share.PARTIAL)
    for own in known.ranks.tensors(node, Section.INPUT):
        state, source = known.state[own], known.ranks.shape(own)
        before = broadcast_from(state.cut, source, shape) if state.cut is not None else None
        if before and before[0]:
            return REPLICA if known.ranks.agree[row] else State(Share.PARTIAL)
    return None
