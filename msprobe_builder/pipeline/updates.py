"""What optimizers did between the steps of a comparison: told when all steps are there."""

from __future__ import annotations

import sqlite3

from msprobe_builder.database.read.all_ranks import read_places

_MOST = 0.8  # of the weights: then their updates speak for all of them


def find_updates(connection: sqlite3.Connection) -> frozenset[tuple[int, int]]:
    """Store who moved weights otherwise than the reference, before its other ranks are heard.

    Steps and ranks are given back of which the weights were moved alike in the step before.
    """
    places = {(one.step, one.rank): one for one in read_places(connection)}
    is_left_out = any("update" in one.without for one in places.values())
    if is_left_out or len({step for step, _ in places}) < 2:
        return frozenset()
    from msprobe_builder.database.read.updates import read_steps
    from msprobe_builder.database.write.updates import write_moved
    from msprobe_builder.verdict.steps.updates import compare_updates

    agreeing = set()
    for step, rank, before, after in read_steps(connection):
        was, now = places.get((step - 1, rank)), places.get((step, rank))
        gradients = None if was is None else was.noise_of_gradients
        if now is None or gradients is None:
            continue  # a fault in the step before explains what its weights become
        found = compare_updates(before, after, gradients)
        if found.moved is not None:
            write_moved(connection, found.moved, step, rank)
        elif found.alike >= _MOST:
            agreeing.add((step, rank))
    return frozenset(agreeing)
