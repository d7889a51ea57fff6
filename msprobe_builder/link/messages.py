"""Which send each receive took its message from.

Messages from one rank to another come in the order in which they were sent. Where a rank receives
from anyone, its receives are laid over the senders' orders so that as few as possible differ, and
in any order where one of them goes on before it has anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from msprobe_builder.link.calls import Call, Leaf

# Ways to lay receives over sends that are followed at once.
_FOLLOWED = 64
_MOST_PAIRS = 1 << 16  # of sends and receives that are held against each other
# What a choice costs: other data; a message that nobody has recorded, and where not all are
# recorded; and what nobody knows.
_DIFFERS, _LOST, _ELSEWHERE, _UNKNOWN = 10_000, 10_001, 5_000, 1


class Message(NamedTuple):
    """One send or receive; ``peer`` None receives from anyone."""

    call: Call
    peer: int | None
    group: str
    tag: int
    leaf: Leaf | None


class Taken(NamedTuple):
    """A receive and what it took; ``is_one_of_many`` where another sender may have sent it."""

    receive: Message
    send: Message | None
    is_one_of_many: bool = False


Same: TypeAlias = Callable[[Message, Message], "bool | None"]


class _Way(NamedTuple):
    """What the receives until now took, the latest last."""

    cost: int
    taken: _Way | None
    sender: int | None


def taken(
    sends: Sequence[Message], receives: Sequence[Message], same: Same, is_partial: bool
) -> list[Taken]:
    """What each of the ``receives`` of a rank took, in their order.

    ``sends`` are all to that rank, in each sender's order, of one group and tag. ``same`` tells
    whether a message is what was sent, None where nobody knows. ``is_partial`` where there are
    senders of which nothing is recorded.
    """
    waits = any(one.peer is None and one.call.is_asynchronous for one in receives)
    lay = _in_any_order if waits else _in_order
    found = [Taken(*pair) for pair in lay(sends, receives, same, is_partial)]
    wrong = [one.send is not None and same(one.send, one.receive) is False for one in found]
    settled = {id(one.send) for one, is_wrong in zip(found, wrong, strict=True) if not is_wrong}
    left = {send.call.rank for send in sends if id(send) not in settled}
    return [
        one._replace(is_one_of_many=is_wrong and one.receive.peer is None and len(left) > 1)
        for one, is_wrong in zip(found, wrong, strict=True)
    ]


def _in_any_order(
    sends: Sequence[Message], receives: Sequence[Message], same: Same, is_partial: bool
) -> list[tuple[Message, Message | None]]:
    """Of several that wait for one rank the backend chooses which gets what comes first.

    So as many as possible get what they have received, and the others what is left.
    """
    takes: dict[int, int] = {}  # by send the receive
    if len(sends) * len(receives) > _MOST_PAIRS:
        return [(receive, None) for receive in receives]
    for wanted in (True, None):
        for number in range(len(receives)):
            if number not in takes.values():
                _take(number, sends, receives, same, wanted, takes, set())
    of = {receive: send for send, receive in takes.items()}
    free = [n for n in range(len(sends)) if n not in takes]
    for number, receive in enumerate(receives):
        if number in of or (receive.peer is None and is_partial):
            continue
        place = next((n for n in free if receive.peer in (None, sends[n].call.rank)), None)
        if place is not None:
            free.remove(place)
            of[number] = place
    return [
        (receive, sends[of[number]] if number in of else None)
        for number, receive in enumerate(receives)
    ]


def _take(
    number: int,
    sends: Sequence[Message],
    receives: Sequence[Message],
    same: Same,
    wanted: bool | None,
    takes: dict[int, int],
    seen: set[int],
) -> bool:
    """Let a receive have a send, those that have it another one (Kuhn's augmenting paths)."""
    for place, send in enumerate(sends):
        if place in seen or receives[number].peer not in (None, send.call.rank):
            continue
        answer = same(send, receives[number])
        if answer is False or (wanted and not answer):
            continue
        seen.add(place)
        if place not in takes or _take(takes[place], sends, receives, same, wanted, takes, seen):
            takes[place] = number
            return True
    return False


def _in_order(
    sends: Sequence[Message], receives: Sequence[Message], same: Same, is_partial: bool
) -> list[tuple[Message, Message | None]]:
    """Each takes what its sender has sent next."""
    queues: dict[int, list[Message]] = {}
    for send in sends:
        queues.setdefault(send.call.rank, []).append(send)
    places = {sender: place for place, sender in enumerate(queues)}
    ordered = list(queues.values())
    ways = {tuple(0 for _ in ordered): _Way(0, None, None)}
    for receive in receives:
        ways = _further(ways, receive, ordered, places, same, is_partial)
    best = min(ways.values(), key=lambda way: way.cost)
    chosen: list[int | None] = []
    while best.taken is not None:
        chosen.append(best.sender)
        best = best.taken
    at = [0] * len(ordered)
    found: list[tuple[Message, Message | None]] = []
    for receive, place in zip(receives, reversed(chosen), strict=True):
        found.append((receive, None if place is None else ordered[place][at[place]]))
        if place is not None:
            at[place] += 1
    return found


def _further(
    ways: dict[tuple[int, ...], _Way],
    receive: Message,
    ordered: Sequence[Sequence[Message]],
    places: dict[int, int],
    same: Same,
    is_partial: bool,
) -> dict[tuple[int, ...], _Way]:
    """The best ways that one receive more allows, by how many of each sender are taken."""
    found: dict[tuple[int, ...], _Way] = {}

    def keep(counts: tuple[int, ...], cost: int, before: _Way, sender: int | None) -> None:
        known = found.get(counts)
        if known is None or cost < known.cost:
            found[counts] = _Way(cost, before, sender)

    named = None if receive.peer is None else places.get(receive.peer, -1)
    for counts, way in ways.items():
        is_left = False  # a message that it could take
        for place in range(len(ordered)) if named is None else (named,):
            if place < 0 or counts[place] == len(ordered[place]):
                continue
            is_left = True
            answer = same(ordered[place][counts[place]], receive)
            cost = _UNKNOWN if answer is None else 0 if answer else _DIFFERS
            after = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
            keep(after, way.cost + cost, way, place)
        if named is None or not is_left:
            is_elsewhere = named is None and is_partial
            keep(counts, way.cost + (_ELSEWHERE if is_elsewhere else _LOST), way, None)
    if len(found) > _FOLLOWED:
        found = dict(sorted(found.items(), key=lambda one: one[1].cost)[:_FOLLOWED])
    return found
