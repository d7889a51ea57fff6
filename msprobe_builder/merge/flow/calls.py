"""Following the flow of data call by call: what goes in is looked up, what comes out is noted."""

from __future__ import annotations

from collections.abc import Callable

from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.kept_parameters import packs
from msprobe_builder.merge.flow.dimensions import Cut, factor_cuts
from msprobe_builder.merge.flow.knowledge import Knowledge
from msprobe_builder.merge.flow.landmarks import is_over_group, scattered
from msprobe_builder.merge.flow.operators import (
    gathers,
    is_between_peers,
    is_grouped,
    is_linear,
    is_product,
    joins,
    operator_of_call,
    reduction_places,
    resizes,
)
from msprobe_builder.merge.flow.parallel_layers import LAST, TALKING_PRODUCTS, TalkingProduct
from msprobe_builder.merge.flow.rules import Output, decide
from msprobe_builder.merge.flow.share import REPLICA, UNKNOWN, Share, State
from msprobe_builder.operators.operator import Operator


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
    operator = operator_of_call(name)
    inputs = known.ranks.tensors(node, Section.INPUT, Section.PARAMETERS, Section.PARAMETERS_GRAD)
    outputs = known.ranks.tensors(node, Section.OUTPUT)
    for row in inputs:
        key = known.ranks.keys[row]
        if key in known.made_uninitialised:
            known.uninitialised.add(row)
        known.put(row, known.look_up(row) or known.by_numbers(row))
    is_collective = name.stem.startswith("Distributed.") or (
        reduction_places(operator) is not None and name.direction is Direction.FORWARD
    )
    # Only on the way forward a call has arguments that tell its group.
    forward = known.number.get(name._replace(direction=Direction.FORWARD), node)
    if is_collective and is_over_group(known.ranks, forward, known.group):
        if name.direction is Direction.BACKWARD:
            _collective_back(known, operator, outputs)
        else:
            _collective(known, operator, inputs, outputs)
        return
    if is_between_peers(name.stem):
        for row in outputs:  # each rank has a peer of its own, and what came in is new
            known.put(row, known.look_up(row) or known.by_numbers(row))
        return
    if resizes(operator) and _resized(known, inputs, outputs):
        return
    if operator.name in TALKING_PRODUCTS:
        _talking_product(known, TALKING_PRODUCTS[operator.name], inputs, outputs)
        return
    _correct_inputs(known, operator, inputs, outputs)
    inputs = _read(known, node, operator, inputs)
    memory = [row for row in inputs if row in known.uninitialised]
    inputs = [row for row in inputs if row not in known.uninitialised]
    shares = frozenset(known.state[row].share for row in inputs)
    passed_on = {known.ranks.keys[row] for row in inputs}
    for row in outputs:
        if _is_memory(known, row, memory, inputs, packs=packs(name.stem)):
            known.note_uninitialised(row)
            known.put(row, UNKNOWN.because(fact("reason.unwritten")))
            continue
        state = decide(Output(known, node, operator, inputs, row, shares))
        # Backward of a product shows what came in as rows; a weight can have the same shape.
        is_certain = is_product(operator) and known.ranks.keys[row] in passed_on
        known.put(row, state, is_certain=is_certain and state.cut is not None)


def _is_memory(
    known: Knowledge, row: int, memory: list[int], inputs: list[int], *, packs: bool
) -> bool:
    """Whether an output is memory that a call handed on, viewed, or wrote a rank's part into."""
    if packs:
        return known.ranks.shape(row) in [known.ranks.shape(one) for one in memory]
    is_same = known.ranks.keys[row] in {known.ranks.keys[one] for one in memory}
    return is_same and not (inputs and known.ranks.is_even[row])


def _read(known: Knowledge, node: int, operator: Operator, inputs: list[int]) -> list[int]:
    """The inputs whose numbers count: what is added to a product 0 times is but memory."""
    adds = "adds_product" in operator.traits
    beta = known.ranks.argument(node, "input.beta") if adds else None
    return inputs[1:] if beta is not None and float(beta) == 0 else inputs


def _correct_inputs(
    known: Knowledge, operator: Operator, inputs: list[int], outputs: list[int]
) -> None:
    """Conclude from the inputs that are known how the others must be cut."""
    shards = [row for row in inputs if known.state[row].share is Share.SHARD]
    if not shards and not is_product(operator):
        _conclude_from_output(known, inputs, outputs)
    if not shards:
        return
    if is_product(operator):
        factors = [row for row in inputs if len(known.ranks.shape(row)) > 1]
        if len(factors) == 2:
            cuts = [known.state[row].cut if row in shards else None for row in factors]
            fitting = factor_cuts(
                cuts,
                [row in shards for row in factors],
                [len(known.ranks.shape(r)) for r in factors],
                is_linear=is_linear(operator),
                is_grouped=is_grouped(operator),
            )
            for row, cut in zip(factors, fitting, strict=True):
                if cut is not None:
                    known.correct(row, cut)
        return
    shape = known.ranks.shape(outputs[0]) if outputs else []
    for row in inputs:
        if known.state[row].share is Share.SHARD and known.state[row].cut is not None:
            continue
        if known.ranks.is_counting(row):
            continue  # each rank numbers its own rows
        own = known.ranks.shape(row)
        for other in shards:
            cut = known.state[other].cut
            if cut is None or cut.dimension >= len(own):
                continue
            # Beside a shard of the same shape, or empty, in a call that works by element.
            alike_shape = own == known.ranks.shape(other) == shape and own[cut.dimension] > 1
            if alike_shape or (joins(operator) and 0 in own):
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
        is_alike &= not known.ranks.is_counting(row)  # each rank numbers its own rows
        if is_alike and known.state[row].share is Share.UNKNOWN:
            known.correct(row, found.cut)


def _talking_product(
    known: Knowledge, product: TalkingProduct, inputs: list[int], outputs: list[int]
) -> None:
    """Rows of a sequence are gathered before, or the product is reduced or scattered behind."""
    for row, cut in zip(inputs, product.inputs, strict=False):
        known.correct(row, Cut(len(known.ranks.shape(row)) - 1) if cut == LAST else cut)
    for row, state in zip(outputs, product.outputs, strict=False):
        known.put(row, state.because(fact("reason.talks_itself")))


def _resized(known: Knowledge, inputs: list[int], outputs: list[int]) -> bool:
    """Whether a call made a whole of all parts, or a part of the whole on each rank.

    Forward and backward of gathering and scattering are told by their sizes alone.
    """
    if not inputs or not outputs:
        return False
    given, made = known.ranks.shape(inputs[0]), known.ranks.shape(outputs[0])
    part = scattered(given, made, known.ranks.count)
    if part is not None:
        is_whole = known.state[inputs[0]].share is Share.REPLICA
        if is_whole:
            state = State(Share.SHARD, part).because(fact("reason.scattered"))
            known.put(outputs[0], state, is_certain=True)
        return is_whole
    part = scattered(made, given, known.ranks.count)
    if part is None:
        return False
    known.correct(inputs[0], part)
    known.put(outputs[0], REPLICA.because(fact("reason.gathered")))
    return True


def _collective_back(known: Knowledge, operator: Operator, outputs: list[int]) -> None:
    """What is handed back was scattered if it was gathered on the way forward, and the reverse."""
    for row in outputs:
        if gathers(operator):
            known.put(row, State(Share.SHARD, Cut(0)).because(fact("reason.scattered")))
        elif reduction_places(operator) is not None:
            known.put(row, REPLICA.because(fact("reason.gathered")))
        else:
            known.put(row, known.look_up(row) or known.by_numbers(row))


def _collective(
    known: Knowledge, operator: Operator, inputs: list[int], outputs: list[int]
) -> None:
    places = reduction_places(operator)
    place = 0 if places is None else places[1]
    for position, row in enumerate(outputs):
        if position != place:  # an argument, shown once more
            known.put(row, known.look_up(row) or known.by_numbers(row))
        elif "all" in operator.shards or gathers(operator):
            known.put(row, REPLICA.because(fact("reason.gathered")))
        elif places is not None:
            cut = known.scattered.get(row, Cut(0))
            known.put(row, State(Share.SHARD, cut).because(fact("reason.scattered")))
        else:
            known.put(row, known.by_numbers(row))
    # A list of parts may be put together along any dimension.
    if gathers(operator) and operator.name != "all_gather" and len(inputs) > 1:
        known.correct(inputs[-1], Cut(0))
