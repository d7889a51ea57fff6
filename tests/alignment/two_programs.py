"""Two drawn programs that share calls and tensors, as records, columns and the flow between them.

Calls of the one are left out, split in two or given other tensors in the other, so that what is
made, taken in, handed on and equal is of all kinds, also such as no program makes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any

import numpy as np

from msprobe_builder.align.evidence.flow import Flow, flow_of
from msprobe_builder.align.evidence.traits import Traits, traits_of
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.graph.parameter_table import Origins, ParameterTable
from msprobe_builder.match.outline import outline_of
from msprobe_builder.pipeline.compare import read_rank
from tests.alignment.test_traits import Dump, Side, numel
from tests.builder.small_dumps import Record, forward, tensor

INPUT, OUTPUT, PARAMETERS = int(Section.INPUT), int(Section.OUTPUT), int(Section.PARAMETERS)
NET = "Module.net.Net.forward.0"
STEMS = ("Torch.relu", "Torch.add", "Functional.linear", "Torch.matmul", "Tensor.view", "Tensor.to")
FORMS = ("view", "to")
SHAPES = ((2, 4), (8,), (4, 2), (4,), (2,), (2, 2, 2))
KEYS = ("Max", "Min", "Mean", "Norm")


def value(random: Random, number: int) -> Record:
    """A tensor of its own; one in six is one that tells nothing: constant, zero, unknown."""
    shape = random.choice(SHAPES)
    kind = random.random()
    norm = float(number + 2)
    if kind < 0.04:
        return tensor(norm, high=1.0, low=1.0, mean=1.0, shape=shape)
    if kind < 0.08:
        return tensor(0.0, high=1.0, low=-1.0, shape=shape)
    if kind < 0.10:
        part = random.choice(KEYS)
        record = tensor(norm, high=norm / 2, low=-norm / 3, mean=0.1, shape=shape)
        return {**record, part: None}
    if kind < 0.12:
        return tensor(None, high=None, low=None, mean=None, shape=shape)
    if kind < 0.16:
        return tensor(norm, high=norm, low=norm, mean=norm, shape=())
    return tensor(norm, high=norm / 2, low=-norm / 3, mean=0.1, shape=shape)


def reshaped(random: Random, record: Record) -> Record:
    shapes = [one for one in SHAPES if numel({"shape": one}) == numel(record)]
    return {**record, "shape": list(random.choice(shapes or [tuple(record["shape"])]))}


def changed(random: Random, record: Record) -> Record:
    """The same to rounding, nearly the same, or another tensor."""
    share = random.choice([1 + 2e-6, 1.01, 3.0])
    return {**record, **{key: record[key] and record[key] * share for key in KEYS}}


@dataclass(frozen=True)
class Call:
    """A call by the numbers of the tensors that it takes in and puts out."""

    stem: str
    given: tuple[int, ...]
    made: tuple[int, ...]


def two_programs(
    random: Random, count: int = 7, stems: Sequence[str] = STEMS
) -> tuple[Dump, Dump, list[tuple[str, str]]]:
    """Both sides, and the calls that both have, by name."""
    is_chain = random.random() < 0.4  # each call takes in what the last one made
    values = [value(random, number) for number in range(4)]
    calls = []
    for _ in range(random.randint(2, count)):
        stem = random.choice(stems)
        last = len(values) - 1
        given = tuple(
            random.choice([last, random.randrange(last + 1)])
            for _ in range(random.choice([0, 1, 1, 2, 2, 3]))
        )
        if is_chain:
            given = (last, *given[:1])
        made = []
        for _ in range(1 if is_chain else random.choice([0, 1, 1, 1, 1, 2])):
            is_form = stem.rpartition(".")[2] in FORMS
            if given and random.random() < (0.9 if is_form else 0.1):
                values.append(reshaped(random, values[given[0]]))
            else:
                values.append(value(random, len(values)))
            made.append(len(values) - 1)
        calls.append(Call(stem, given, tuple(made)))
    dumps = []
    names: list[dict[int, str]] = []
    for _ in range(2):
        here = [changed(random, one) if random.random() < 0.15 else one for one in values]
        dump, of_calls = _written(random, calls, here, stems, 0.0 if is_chain else 0.15)
        dumps.append(dump)
        names.append(of_calls)
    return (
        dumps[0],
        dumps[1],
        [(names[0][one], names[1][one]) for one in names[0] if one in names[1]],
    )


def _written(
    random: Random,
    calls: Sequence[Call],
    values: list[Record],
    stems: Sequence[str],
    left_out: float,
) -> tuple[Dump, dict[int, str]]:
    data: dict[str, Record] = {NET: forward([values[0]], [values[0]])}
    construct: dict[str, str | None] = {NET: None}
    numbers: Counter[str] = Counter()
    names: dict[int, str] = {}
    host = NET

    def write(stem: str, given: Sequence[Record], made: Sequence[Record]) -> str:
        if stem == "leaf":
            name = f"Module.net.leaf{numbers[stem]}.Leaf.forward.0"
        else:
            name = f"{stem}.{numbers[stem]}.forward"
        numbers[stem] += 1
        data[name] = forward([*given], [*made])
        if stem == "leaf" and random.random() < 0.5:
            data[name]["parameters"] = {"weight": random.choice(values)}
        construct[name] = host
        return name

    for place, call in enumerate(calls):
        if random.random() < left_out:
            continue
        if random.random() < 0.2:
            host = f"Module.net.part{place}.Part.forward.0"
            data[host] = forward([values[0]], [values[0]])
            construct[host] = NET
        given, made = ([values[one] for one in part] for part in (call.given, call.made))
        if random.random() < 0.2 and given and made:
            between = value(random, 50 + place + 20 * random.randrange(2))
            write(random.choice(stems), given, [between])
            write(random.choice(stems), [between, *given[1:]], made)
            continue
        is_leaf = random.random() < 0.2
        names[place] = write("leaf" if is_leaf else call.stem, given, made)
        if random.random() < 0.1:
            host = NET
    return Dump(data, construct), names


@dataclass(frozen=True)
class Part(Side):
    """One side with its columns; ``name_of`` by node."""

    table: ParameterTable
    flow: Flow

    @cached_property
    def name_of(self) -> dict[int, str]:
        return {node: name for name, node in self.nodes.items()}

    @cached_property
    def step(self) -> list[int]:
        return [int(one) for one in self.traits.outline.tree.micro_step]

    @cached_property
    def records(self) -> list[Record]:
        """What stands in each row, by its place among what its call was recorded with."""
        return [self._record(row) for row in range(len(self.table))]

    @cached_property
    def keys(self) -> list[tuple[Any, ...] | None]:
        return [key_of(one) if one else None for one in self.records]

    def _record(self, row: int) -> Record:
        name = self.name_of[int(self.table.node[row])]
        section = {INPUT: "inputs", OUTPUT: "outputs", PARAMETERS: "parameters"}
        number = int(self.table.section[row])
        if number not in section:  # the gradient of the only parameter
            [[gradient]] = self.dump.data[name].values()
            return dict(gradient)
        several = self.dump.tensors(name, section[number])
        return several[int(self.table.position[row])] if self.table.is_tensor[row] else {}

    def rows(self, name: str, *sections: int) -> list[int]:
        """The rows of a call in some sections, in their order."""
        return [row for row, section in self._rows.get(name, ()) if section in sections]

    @cached_property
    def _rows(self) -> dict[str, list[tuple[int, int]]]:
        found: dict[str, list[tuple[int, int]]] = {}
        for row, node in enumerate(self.table.node.tolist()):
            if not self.table.is_tensor[row]:
                continue
            found.setdefault(self.name_of[node], []).append((row, int(self.table.section[row])))
        return found

    def is_leaf(self, name: str) -> bool:
        return name not in self.dump.construct.values()


def key_of(record: Record) -> tuple[Any, ...] | None:
    """All that is recorded of a tensor but its shape; nothing where that tells of no tensor."""
    if None in (record["Max"], record["Min"], record["Mean"]) or record["Norm"] == 0:
        return None
    if record["Max"] == record["Min"] and numel(record) != 1:
        return None
    return (numel(record), *(record[key] for key in KEYS))


def with_steps(random: Random, traits: Traits) -> Traits:
    """The same with the last calls in a second micro-step."""
    tree = traits.outline.tree
    start = random.randint(1, 2 * len(tree))
    later = replace(tree, micro_step=(np.arange(len(tree)) >= start).astype(np.int64))
    return replace(traits, outline=replace(traits.outline, tree=later))


def with_origins(random: Random, table: ParameterTable) -> ParameterTable:
    """The same as if a collector had recorded of some tensors who made them."""
    count = len(table)
    maker = [random.randrange(count) if random.random() < 0.2 else -1 for _ in range(count)]
    nothing = np.zeros(count, dtype=bool)
    none = np.full(count, -1, dtype=np.int64)
    origins = Origins(
        none,
        np.array(maker, dtype=np.int64),
        nothing,
        nothing,
        nothing.astype(np.uint8),
        none.astype(np.int32),
        [],
    )
    return replace(table, origins=origins)


def read_parts(
    random: Random, dumps: Sequence[Dump], *, origins: bool = False, texts: Texts | None = None
) -> list[Part]:
    """The sides as alignment has them, with ids in common."""
    texts = Texts() if texts is None else texts
    operators: dict[str, int] = {}
    found = []
    for place, dump in enumerate(dumps):
        content = {"task": "statistics", "framework": "pytorch", "data": dump.data}
        side, _ = read_rank(InMemoryDump(content, dump.construct, {}, str(place)), texts)
        traits = traits_of(side, outline_of(side.tree, side.table), operators, texts)
        traits = with_steps(random, traits)
        table = with_origins(random, side.table) if origins else side.table
        names = {name: node for node, name in enumerate(side.tree.names) if name in dump.data}
        found.append(Part(dump, traits, names, table, flow_of(traits, table)))
    return found
