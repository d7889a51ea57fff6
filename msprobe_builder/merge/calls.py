"""What a call makes of shards, replicas and partial results."""

from __future__ import annotations

from collections.abc import Callable

from msprobe_builder.dump.names import UNINITIALISED, Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.merge.dimensions import Cut, factor_cuts, output_cut, removes_cut
from msprobe_builder.merge.knowledge import Knowledge
from msprobe_builder.merge.landmarks import is_over_group
from msprobe_builder.merge.operators import (
    GATHERS,
    JOINS,
    LINEARS,
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
    if name.stem.startswith("Distributed.") and is_over_group(known.ranks, node, known.group):
        _collective(known, operator, inputs, outputs)
        return
    _correct_inputs(known, operator, inputs, outputs)
    inputs = [row for row in inputs if row not in known.uninitialised]
    shares = {known.state[row].share for row in inputs}
    for row in outputs:
        known.put(row, _output(known, node, operator, inputs, row, shares))


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
        if row in shards:
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
        elif operator == "all_reduce" or operator in GATHERS:
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
    if _is_gradient_of(known, node, row, Share.SHARD):
        return State(Share.SHARD)
    if Share.SHARD in shares and _is_gradient_of(known, node, row, Share.REPLICA):
        return REPLICA if known.ranks.agree[row] else State(Share.PARTIAL)
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
        return State(Share.PARTIAL)
    shape = known.ranks.shape(row)
    if operator in SHRINKING and len(shape) < max(map(len, shapes)):
        own = known.state[shards[0]].cut
        return LOCAL if own and removes_cut(own, shapes[0], shape) else UNKNOWN
    cut = output_cut(
        operator,
        known.tree.parsed[node].direction,
        [(known.state[own].cut, one) for own, one in zip(shards, shapes, strict=True)],
        shape,
        known.ranks.numbers(node),
    )
    return State(Share.SHARD, cut)


def _forward_twin(known: Knowledge, node: int) -> int | None:
    name = known.tree.parsed[node]
    if name.direction is not Direction.BACKWARD:
        return None
    return known.number.get(name._replace(direction=Direction.FORWARD))


def _is_gradient_of(known: Knowledge, node: int, row: int, share: Share) -> bool:
    """Whether a backward call puts out the gradient of a tensor of this share.

    Its forward call took that tensor in.
    """
    twin = _forward_twin(known, node)
    if twin is None:
        return False
    shape = known.ranks.shape(row)
    inputs = [
        own
        for own in known.ranks.tensors(twin, Section.INPUT)
        if known.ranks.shape(own) == shape and not known.ranks.is_whole_number(own)
    ]
    return bool(inputs) and all(known.state[own].share is share for own in inputs)


def _took_in_local(known: Knowledge, node: int) -> bool:
    """Whether the forward call of a backward call took in what each rank has for itself.

    Such as a mask, by which the gradient is masked as well.
    """
    twin = _forward_twin(known, node)
    return twin is not None and any(
        known.state[own].share in (Share.LOCAL, Share.UNKNOWN)
        for own in known.ranks.tensors(twin, Section.INPUT)
    )
