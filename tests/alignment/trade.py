"""Calls that trade places: what the lines of a module in another order make of a dump."""

from __future__ import annotations

import random
from dataclasses import replace

from msprobe_builder.dump.names import Direction, Kind, parse_name
from tests.alignment.respell import Change, Recording, renumbered


def traded_lines(share: float, seed: int) -> Change:
    """Calls one after the other that do not need each other trade places, and are counted anew."""

    def change(before: Recording) -> Recording:
        chance = random.Random(seed)  # noqa: S311 (a test, no secret)
        names = list(before.data)
        for _ in range(3):
            for place in range(len(names) - 1):
                first, second = names[place : place + 2]
                if chance.random() < share and _are_free(before, first, second):
                    names[place : place + 2] = second, first
        rank = {name: place for place, name in enumerate(names)}
        parents = sorted(before.parent, key=lambda name: rank.get(name, -1))
        return renumbered(
            replace(
                before,
                data={name: before.data[name] for name in names},
                parent={name: before.parent[name] for name in parents},
                origin={
                    name: before.origin[name]
                    for name in [*parents, *names]
                    if name in before.origin
                },
            )
        )

    return change


def _are_free(before: Recording, first: str, second: str) -> bool:
    """Whether two forward calls of one module could be made the other way round, and differ."""
    one, other = (parse_name(name) for name in (first, second))
    if any(
        name.kind is not Kind.API or name.direction is not Direction.FORWARD
        for name in (one, other)
    ):
        return False
    if before.parent.get(first) != before.parent.get(second):
        return False
    made = [str(tensor) for tensor in before.data[first].get("output") or ()]
    given = str([before.data[second].get(key) for key in ("input_args", "input_kwargs")])
    taken = str([before.data[first].get(key) for key in ("input_args", "input_kwargs")])
    overwritten = [str(tensor) for tensor in before.data[second].get("output") or ()]
    if any(tensor in given for tensor in made) or any(tensor in taken for tensor in overwritten):
        return False
    return one.stem != other.stem or made != overwritten
