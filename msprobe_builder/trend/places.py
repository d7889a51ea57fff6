"""From a place in a trend to the graph of that step and rank."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

from msprobe_builder.base.codes import SIDES
from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.graphs import read_graphs
from msprobe_builder.database.read.names import forward_modules
from msprobe_builder.dump.names import without_wrappers
from msprobe_builder.operators import questions
from msprobe_builder.operators.table import operator_of

_MOST_FILES = 1000


def module_of(kind: str, name: str) -> str | None:
    """The path of the module that a record is of, None for the learning rate."""
    if kind == "learning_rate":
        return None
    path = name.partition("@")[0].partition(":")[0]  # a micro-batch, one of several outputs
    return path if kind == "activation" else path.rpartition(".")[0]


_LOSS = re.compile(r"(^|[._])(loss|criterion)([._\d]|$)", re.IGNORECASE)


def losses_of(kinds: Sequence[str], names: Sequence[str]) -> list[int]:
    """The places of targets that are losses: what is put out by a call or module that makes one."""
    return [
        at
        for at, (kind, name) in enumerate(zip(kinds, names, strict=True))
        if (kind == "activation" and _LOSS.search(name) is not None)
        or (kind == "forward" and ":output" in name and _makes_a_loss(name.partition(":")[0]))
    ]


def _makes_a_loss(call: str) -> bool:
    """Whether it is ``Functional.cross_entropy.0``; a model that is called so is none."""
    return questions.is_loss(operator_of(call.rpartition(".")[0]))


def find_node(
    connection: sqlite3.Connection, step: int, rank: int, module: str | None
) -> str | None:
    """The node of a module in the graph of a step and rank.

    Empty when the graph has no such node, None when there is no such graph. The model itself is
    the module that no other holds.
    """
    graph = next(
        (one for one in read_graphs(connection) if (one.step, one.rank) == (step, rank)), None
    )
    if graph is None:
        return None
    found = ""
    if module is not None:
        wanted = without_wrappers(module)
        for stem, name in forward_modules(connection, graph.graph_id).items():
            path = without_wrappers(stem.partition(".")[2].rpartition(".")[0])
            if path == wanted:
                found = name
    return found


def graph_links(folder: Path, step: int, rank: int, module: str | None) -> Iterator[str]:
    """What to add to TensorBoard's address, for each .vis.db below a folder that has the place."""
    for path in sorted(folder.rglob("*.vis.db"))[:_MOST_FILES]:
        with suppress(BuildError, UsageError), opened(path) as connection:
            node = find_node(connection, step, rank, module)
            if node is not None:
                yield fragment(path.relative_to(folder).as_posix(), step, rank, node)


def fragment(file: str, step: int, rank: int, node: str) -> str:
    """The viewer's own form of a place, as ``session/address.ts`` reads it."""
    given: dict[str, str | int] = {"file": file, "step": step, "rank": rank}
    if node:
        given |= {"side": SIDES[0], "node": node}
    named = {f"p.graph_ascend.{key}": value for key, value in given.items()}
    return f"#graph_ascend&{urlencode(named)}"
