"""What dumps that are read one after the other have alike stands once, and is made once.

Both sides of a comparison, and ranks that share out a model, mostly have the same calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.dump.names import parse_name
from msprobe_builder.dump.parameters import Parameters
from msprobe_builder.dump.read import Dump
from msprobe_builder.dump.stack import Stacks
from msprobe_builder.graph.parameter_table import ParameterTable, order_parameters
from msprobe_builder.graph.tree import LARGE, Tree, build_tree


class Shared:
    """Hierarchies and columns of parameters, those of the latest dump where they are equal."""

    def __init__(self) -> None:
        self._latest: tuple[Tree, list[Diagnostic]] | None = None
        self._table: ParameterTable | None = None
        self._stacks = Stacks()
        # What the latest ones follow from: that itself is, of a large dump, larger than they are.
        self._calls, self._read = b"", b""
        self.names: dict[str, str] = {}  # of all calls, each text once

    def tree(self, dump: Dump) -> tuple[Tree, list[Diagnostic]]:
        """What :func:`build_tree` gives."""
        calls = _digest_of_calls(dump)
        if self._latest is None or self._calls != calls:
            self._latest, self._calls = build_tree(dump), calls
        tree, found = self._latest
        if len(tree) >= LARGE:
            # It holds none of them, and any that stays keeps a megabyte around it.
            self.names.clear()
            parse_name.cache_clear()
        return tree, list(found)

    def stacks(self, stacks: Stacks) -> Stacks:
        """The same stacks, or those of the latest dump where they are equal."""
        read = _digest_of_stacks(stacks)
        if read != self._read:
            self._read, self._stacks = read, stacks.compact()
            if len(stacks.of_name) >= LARGE:
                parse_name.cache_clear()
        return self._stacks

    def table(self, tree: Tree, parameters: Parameters) -> ParameterTable:
        """What :func:`order_parameters` gives."""
        self._table = order_parameters(tree, parameters, self._table)
        return self._table


def _digest_of_calls(dump: Dump) -> bytes:
    """Equal where the same calls are recorded in the same order: all that a tree follows from."""
    construct = dump.construct
    steps = construct.micro_step
    return _digest(
        [repr((dump.is_merged, construct.micro_steps, sorted(dump.recomputed)))],
        construct.parent,
        construct.parent.values(),
        dump.records,
        {} if steps is None else steps,
        b"" if steps is None else _bytes_of(steps.values()),
    )


def _digest_of_stacks(stacks: Stacks) -> bytes:
    """Equal for equal stacks of the same names."""
    numbers = _bytes_of(stacks.of_name.values())
    return _digest([repr((stacks.stacks, stacks.skipped))], stacks.of_name, numbers)


def _bytes_of(numbers: Iterable[int]) -> bytes:
    return np.fromiter(numbers, np.int64).tobytes()


def _digest(*parts: Iterable[str | None] | bytes) -> bytes:
    """One for numbers, and for texts and where each of them begins."""
    result = blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, bytes):
            result.update(len(part).to_bytes(8, "little") + part)
            continue
        texts = list(part)
        result.update(len(texts).to_bytes(8, "little"))
        result.update(_bytes_of(-1 if text is None else len(text) for text in texts))
        for first in range(0, len(texts), _BLOCK):
            together = "".join(text or "" for text in texts[first : first + _BLOCK])
            result.update(together.encode("utf-8", "surrogatepass"))
    return result.digest()


_BLOCK = 1 << 16  # texts at a time
