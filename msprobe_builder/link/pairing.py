"""Which calls of different ranks belong together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from msprobe_builder.base.codes import Role
from msprobe_builder.link.calls import Call, Group, Leaf, group_key, group_of
from msprobe_builder.link.messages import Message, Same, taken
from msprobe_builder.link.signatures import Pattern, Payload

# In larger groups each call is linked with its two neighbours, so that cost stays linear.
ALL_PAIRS = 64


_OPPOSITE = {
    Role.SEND: Role.RECEIVE,
    Role.RECEIVE: Role.SEND,
    Role.SEND_RECEIVE: Role.SEND_RECEIVE,
}


class Link(NamedTuple):
    """Two calls; ``role`` is that of the first."""

    call: Call
    partner: Call
    role: Role
    data_equal: bool | None

    def reversed(self) -> Link:
        """The same link seen from the partner."""
        return Link(self.partner, self.call, _OPPOSITE[self.role], self.data_equal)


class Together(NamedTuple):
    """The calls in which some ranks of a group do one thing; ``members`` are all of the group.

    ``root`` is the rank that gives to all, or takes from all, in calls that have one.
    """

    calls: list[Call]
    members: tuple[int, ...]
    root: int | None


class Delivery(NamedTuple):
    """A message, and its tensor before and after; None where it is not known."""

    send: Call
    receive: Call
    sent: Leaf | None
    received: Leaf | None
    is_one_of_many: bool = False  # it is other data, and another rank may have sent it


@dataclass
class Pairing:
    """Links, and the calls that found no partner: why depends on the dump or on the run."""

    links: list[Link] = field(default_factory=list)
    together: list[Together] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    unmatched: list[Call] = field(default_factory=list)  # the other rank is there, its call is not
    absent: list[Call] = field(default_factory=list)  # the other rank is not in the dump
    unreadable: list[Call] = field(default_factory=list)  # the arguments do not say who it is


# Receiver, group, tag.
_Channel = tuple[int, str, int]


def pair_calls(calls: list[Call], ranks: tuple[int, ...], same: Same | None = None) -> Pairing:
    """Pair all calls of one step and side; ``ranks`` are those in the dump.

    ``same`` tells whether a message is what was sent where more is known than its statistics.
    """
    result = Pairing()
    readable = [call for call in calls if call.is_recorded]
    result.unreadable += [call for call in calls if not call.is_recorded]
    _pair_messages(readable, ranks, same or _same_leaves, result)
    _pair_collectives(readable, ranks, result)
    return result


def _pair_messages(calls: list[Call], ranks: tuple[int, ...], same: Same, result: Pairing) -> None:
    """Sends and receives: the k-th send to a rank is the k-th receive from it."""
    sends: dict[_Channel, list[Message]] = {}
    receives: dict[_Channel, list[Message]] = {}
    partial: set[str] = set()  # groups of which a rank is not in the dump
    for call in calls:
        for role, message in _messages(call, ranks):
            if message.peer is None and role is Role.SEND:
                result.unreadable.append(call)
            elif message.peer is not None and message.peer not in ranks:
                result.absent.append(call)
                partial.add(message.group)
            elif role is Role.SEND:
                assert message.peer is not None
                channel = message.peer, message.group, message.tag
                sends.setdefault(channel, []).append(message)
            else:
                channel = call.rank, message.group, message.tag
                receives.setdefault(channel, []).append(message)
                group = group_of(call, ranks).ranks if message.peer is None else None
                if group is not None and not set(ranks).issuperset(group):
                    partial.add(message.group)
    for channel in sends | receives:
        given, got = sends.get(channel, []), receives.get(channel, [])
        is_partial = channel[1] in partial
        kept = set()
        for one in taken(given, got, same, is_partial):
            if one.send is not None:
                kept.add(id(one.send))
                _deliver(one.send, one.receive, one.is_one_of_many, result)
            elif is_partial and one.receive.peer is None:
                result.absent.append(one.receive.call)
            else:
                result.unmatched.append(one.receive.call)
        result.unmatched += [one.call for one in given if id(one) not in kept]


def _messages(call: Call, ranks: tuple[int, ...]) -> Iterable[tuple[Role, Message]]:
    pattern = call.function.pattern
    if pattern is Pattern.BATCH:
        return _batch(call, ranks)
    if pattern not in (Pattern.SEND, Pattern.RECEIVE):
        return ()
    group = group_of(call, ranks)
    peer = _peer(call, group)
    tag = call.number_at("tag") or 0
    place = ("tensor", "")
    if pattern is Pattern.SEND:
        return [(Role.SEND, Message(call, peer, group.key, tag, call.before.get(place)))]
    return [(Role.RECEIVE, Message(call, peer, group.key, tag, call.received(place)))]


def _batch(call: Call, ranks: tuple[int, ...]) -> Iterable[tuple[Role, Message]]:
    """The operations of a batch_isend_irecv."""
    for (parameter, path), operation in call.arguments.items():
        position, _, key = path.rpartition(".")
        if key != "op":
            continue
        default = group_key(ranks)
        group = call.arguments.get((parameter, f"{position}.group_id"), default)
        tag = call.number_at(parameter, f"{position}.tag") or 0
        peer = call.number_at(parameter, f"{position}.peer")
        place = (parameter, f"{position}.tensor")
        if operation.endswith("send"):
            yield Role.SEND, Message(call, peer, group, tag, call.before.get(place))
        else:
            yield Role.RECEIVE, Message(call, peer, group, tag, call.received(place))


def _deliver(send: Message, receive: Message, is_one_of_many: bool, result: Pairing) -> None:
    result.deliveries.append(
        Delivery(send.call, receive.call, send.leaf, receive.leaf, is_one_of_many)
    )
    is_same = _same(send.leaf, receive.leaf)
    result.links.append(Link(send.call, receive.call, Role.SEND, is_same))


def _pair_collectives(calls: list[Call], ranks: tuple[int, ...], result: Pairing) -> None:
    """The k-th call of a function in a group belongs to the k-th of every other rank."""
    rooted = (Pattern.FROM_ROOT, Pattern.TO_ROOT)
    sequences: dict[tuple[str, Group, int | None], dict[int, list[Call]]] = {}
    for call in calls:
        if call.function.pattern is Pattern.ALL or call.function.pattern in rooted:
            group = group_of(call, ranks)
            root = _root(call, group) if call.function.pattern in rooted else None
            by_rank = sequences.setdefault((call.name, group, root), {})
            by_rank.setdefault(call.rank, []).append(call)
    for (_, group, root), by_rank in sequences.items():
        members = tuple(sorted(by_rank)) if group.ranks is None else group.ranks
        expected = {rank for rank in members if rank in ranks} | by_rank.keys()
        for number in range(max(map(len, by_rank.values()))):
            together = [same[number] for same in by_rank.values() if number < len(same)]
            result.together.append(Together(together, members, root))
            if root is None:
                _link_all(together, members, result)
            else:
                _link_root(together, members, root, result)
            if len(together) < len(expected):
                result.unmatched += together
            if expected != set(members) | by_rank.keys():
                result.absent += together


def _link_all(together: list[Call], members: tuple[int, ...], result: Pairing) -> None:
    if len(together) <= ALL_PAIRS:
        pairs: Iterable[tuple[Call, Call]] = combinations(together, 2)
    else:
        pairs = zip(together, [*together[1:], together[0]], strict=True)
    for a, b in pairs:
        result.links.append(Link(a, b, Role.SEND_RECEIVE, _exchanged(a, b, members)))


def _link_root(together: list[Call], members: tuple[int, ...], root: int, result: Pairing) -> None:
    hub = next((call for call in together if call.rank == root), None)
    if hub is None:
        return
    for call in together:
        if call is not hub and call.function.pattern is Pattern.FROM_ROOT:
            result.links.append(Link(hub, call, Role.SEND, _moved(hub, call, members)))
        elif call is not hub:
            result.links.append(Link(call, hub, Role.SEND, _moved(call, hub, members)))


def _peer(call: Call, group: Group) -> int | None:
    """The rank that ``src`` or ``dst`` names, or ``group_src`` or ``group_dst`` by position."""
    parameter = call.function.peer or ""
    inside = call.number_at(f"group_{parameter}")
    if inside is not None and group.ranks is not None and 0 <= inside < len(group.ranks):
        return group.ranks[inside]
    return call.number_at(parameter)


def _root(call: Call, group: Group) -> int:
    """The root of a call; torch.distributed's default is rank 0."""
    root = _peer(call, group)
    return 0 if root is None else root


def _exchanged(a: Call, b: Call, members: tuple[int, ...]) -> bool | None:
    """Whether two ranks of a symmetric call got what they had to."""
    result = a.function.result
    if result is not None:
        outputs = [place for place in a.after if place[0] == result]
        return _all(_same(a.received(place), b.received(place)) for place in outputs)
    return _all((_moved(a, b, members), _moved(b, a, members)))


def _moved(sender: Call, receiver: Call, members: tuple[int, ...]) -> bool | None:
    """Whether what one rank sent to another is what arrived there."""
    sent = place_of(sender.function.sent, receiver.rank, members)
    got = place_of(receiver.function.received, sender.rank, members)
    if sent is None or got is None:
        return None
    return _same(sender.before.get(sent), receiver.received(got))


def place_of(
    payload: Payload | None, other: int, members: tuple[int, ...]
) -> tuple[str, str] | None:
    """Where a call keeps what it exchanges with another rank of its group."""
    if payload is None:
        return None
    if not payload.per_rank:
        return payload.parameter, ""
    return (payload.parameter, str(members.index(other))) if other in members else None


def _same_leaves(sent: Message, received: Message) -> bool | None:
    return _same(sent.leaf, received.leaf)


def _same(a: Leaf | None, b: Leaf | None) -> bool | None:
    return None if a is None or b is None else a.same_data(b)


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    """False if any is, True only if all are known to be."""
    known = list(verdicts)
    if False in known:
        return False
    return None if None in known or not known else True
