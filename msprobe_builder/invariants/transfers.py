"""What was sent is what arrives, and what all ranks are given is the same on all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, permutations

from msprobe_builder.facts.fact import fact
from msprobe_builder.invariants.run import Run, Tensor, given_to, is_on_its_way, left_by
from msprobe_builder.invariants.violation import Check, Found, Violation
from msprobe_builder.link.calls import Call, Leaf, Place
from msprobe_builder.link.messages import Message, Same
from msprobe_builder.link.pairing import ALL_PAIRS, Delivery, Together, place_of
from msprobe_builder.link.signatures import Pattern


def check_transfers(
    run: Run, together: Sequence[Together], deliveries: Sequence[Delivery], found: Found
) -> None:
    """Hold what arrived against what was sent, of all that reduces nothing."""
    for one in deliveries:
        sent, received = _at(run, one.send, one.sent), _at(run, one.receive, one.received)
        is_same = None if sent is None or received is None else sent.equals(received)
        found.count(Check.TRANSFER, is_known=is_same is not None)
        if is_same is False:
            violation = _wrong(run, one.receive, one.send, sent, received)
            if one.is_one_of_many:
                unknown = (fact("not_arrived.from_any"),)
                violation = replace(violation, evidence=unknown, error=None)
            found.violations.append(violation)
    for group in together:
        function = group.calls[0].function
        if function.sent is None or function.received is None:
            continue
        answers: list[bool | None] = []
        wrong: list[Violation] = []
        for sender, receiver in _ways(group):
            sent = _moved(run, sender, receiver, group, is_sent=True)
            received = _moved(run, sender, receiver, group, is_sent=False)
            if sent is None or received is None:
                answers.append(None)
                continue
            answers.append(sent.equals(received))
            if answers[-1] is False:
                wrong.append(_wrong(run, receiver, sender, sent, received))
        if wrong and is_on_its_way(run, _received(group)):
            wrong, answers = [], []
        found.violations += wrong
        is_known = None not in answers and bool(answers)
        found.count(Check.TRANSFER, is_known=is_known)


def is_same_message(run: Run) -> Same:
    """What tells a message from others: the sketches of its tensor, where there are any."""
    known: dict[tuple[int, int, int, int], bool | None] = {}

    def same(send: Message, receive: Message) -> bool | None:
        sent, received = _at(run, send.call, send.leaf), _at(run, receive.call, receive.leaf)
        if sent is None or received is None:
            return None
        key = *sent.at, *received.at
        if key not in known:
            known[key] = sent.equals(received)
        return known[key]

    return same


def _ways(group: Together) -> Iterator[tuple[Call, Call]]:
    """Who gives to whom."""
    if group.root is None and len(group.calls) > ALL_PAIRS:
        behind = [*group.calls[1:], group.calls[0]]
        yield from chain.from_iterable(
            ((one, other), (other, one)) for one, other in zip(group.calls, behind, strict=True)
        )
        return
    if group.root is None:
        yield from permutations(group.calls, 2)
        return
    hub = next((call for call in group.calls if call.rank == group.root), None)
    for call in group.calls:
        if hub is None or call is hub:
            continue
        is_from = call.function.pattern is Pattern.FROM_ROOT
        yield (hub, call) if is_from else (call, hub)


def _received(group: Together) -> Iterator[tuple[Call, Place]]:
    """Where calls have what arrives from others."""
    for sender, receiver in _ways(group):
        place = place_of(receiver.function.received, sender.rank, group.members)
        if place is not None:
            yield receiver, place


def _moved(
    run: Run, sender: Call, receiver: Call, group: Together, *, is_sent: bool
) -> Tensor | None:
    call, other = (sender, receiver) if is_sent else (receiver, sender)
    payload = call.function.sent if is_sent else call.function.received
    place = place_of(payload, other.rank, group.members)
    if place is None:
        return None
    return given_to(run, call, place) if is_sent else left_by(run, call, place)


def _wrong(
    run: Run, receiver: Call, sender: Call, sent: Tensor | None, received: Tensor | None
) -> Violation:
    """What arrived at a rank is not what the other sent; perhaps it is what was sent later."""
    other = None if received is None else _sent_otherwise(run, sender, received)
    evidence = (
        fact("not_arrived", name=run.node(sender.node).name, rank=sender.rank),
        *(() if other is None else (fact("not_arrived.other", name=other),)),
    )
    distance = None if sent is None or received is None else sent.distance(received)
    size = 0.0 if sent is None else sent.size
    return Violation(
        receiver.node,
        Check.TRANSFER,
        evidence,
        error=distance / size if distance is not None and size else None,
        ranks=(receiver.rank,),
    )


def _sent_otherwise(run: Run, sender: Call, received: Tensor) -> str | None:
    """The call of the sender that was given what arrived."""
    rank, stem = run.ranks[sender.rank], run.node(sender.node).stem
    return next(
        (
            one.name
            for node, one in rank.nodes.items()
            if node != sender.node and one.stem == stem
            if any(each.equals(received) for each in rank.given(node))
        ),
        None,
    )


def _at(run: Run, call: Call, leaf: Leaf | None) -> Tensor | None:
    return None if leaf is None else run.tensor((call.node, leaf.ordinal))
