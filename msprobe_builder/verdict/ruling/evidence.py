"""What is known of a node whoever has judged it: its line of code, and where NaN begins."""

from __future__ import annotations

from msprobe_builder.dump.stack import Stacks, is_framework
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.metrics.result import Graph


def told_of_overflow(graph: Graph, node: int) -> list[Fact]:
    """Whether the overflow check has found the origin of NaN and infinity here."""
    if not graph.beginnings or node != graph.beginnings[0].node:
        return []
    return [fact("overflow_begins"), *graph.beginnings[0].why]


def source_line(stacks: Stacks, name: str, names: list[str]) -> str | None:
    """File and line of the user's code that made the call, the innermost outside of frameworks.

    ``names`` are other names to look under when the call itself has no stack.
    """
    for one in (name, *names):
        number = stacks.of_name.get(one)
        if number is None:
            continue
        frames = [frame for frame in stacks.stacks[number] if frame.file]
        for frame in frames:
            if not is_framework(str(frame.file)):
                return f"{str(frame.file).rpartition('/')[2]}:{frame.line}"
        if frames:
            return f"{str(frames[0].file).rpartition('/')[2]}:{frames[0].line}"
    return None
