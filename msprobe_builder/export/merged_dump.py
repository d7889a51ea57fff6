"""A merged model written as an ordinary dump: dump.json, construct.json, stack.json and tensors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.argument_gradients import ARGUMENT_GRADIENTS
from msprobe_builder.dump.names import COLLECTION, Direction, Kind, parse_gradients
from msprobe_builder.dump.read import MERGED_RANKS, Dump
from msprobe_builder.dump.stack import Stacks, format_frame
from msprobe_builder.export.record import RecordWriter
from msprobe_builder.export.tensor_files import TensorFiles
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.graph.tree import Tree


def write_dump(
    dump: Dump,
    tree: Tree,
    table: ParameterTable,
    texts: Texts,
    directory: Path,
    provenance: Provenance | None,
) -> list[str]:
    """Write one merged model into an existing directory, one record at a time.

    Reading it gives the same hierarchy, order, micro-steps and parameters again. What is not
    known is null. The ranks it was merged from stand in the head of dump.json. Tensors are put
    together of the files that ``provenance`` names; returned are those that cannot be read.
    """
    task = dump.task if dump.task in ("structure", "tensor") else "statistics"
    provenance = provenance or Provenance()
    files = None
    if task == "tensor":
        folder = directory / "dump_tensor_data"
        files = TensorFiles(provenance.assemblies, folder, dump.directory)
    known = {"task": task, "level": dump.level, "framework": dump.framework}
    head: dict[str, Any] = {key: value for key, value in known.items() if value is not None}
    head["dump_data_dir"] = None
    head[MERGED_RANKS] = sorted({rank for own in provenance.origins for rank in own})
    if dump.by_argument:
        head[ARGUMENT_GRADIENTS] = True
    with (directory / "dump.json").open("w", encoding="utf-8") as file:
        file.write(json.dumps(head)[:-1] + ', "data": ')
        records = _records(tree, table, texts, files, is_structure=task == "structure")
        _write_object(file, records)
        file.write("}\n")
    with (directory / "construct.json").open("w", encoding="utf-8") as file:
        _write_object(file, _construct(tree))
    with (directory / "stack.json").open("w", encoding="utf-8") as file:
        _write_object(file, _stacks(dump.stacks, tree.names))
    return [] if files is None else files.failed


def _write_object(file: Any, items: Iterator[tuple[str, Any]]) -> None:
    before = "{\n "
    for key, value in items:
        file.write(f"{before}{json.dumps(key)}: {json.dumps(value)}")
        before = ",\n "
    file.write("{}" if before[0] == "{" else "\n}")


def _records(
    tree: Tree,
    table: ParameterTable,
    texts: Texts,
    files: TensorFiles | None,
    *,
    is_structure: bool,
) -> Iterator[tuple[str, Any]]:
    start = np.searchsorted(table.node, np.arange(len(tree) + 1)).tolist()

    def file_of(row: int) -> str | None:
        if files is None:
            return None
        name = texts.values[int(table.name_id[row])].removeprefix("parameters_grad.")
        return files.write(row, f"{tree.names[int(table.node[row])]}.{name}")

    writer = RecordWriter(table, texts, with_statistics=not is_structure, file_of=file_of)
    for node in np.flatnonzero(tree.record >= 0).tolist():
        rows = range(start[node], start[node + 1])
        if parse_gradients(tree.names[node]):
            yield tree.names[node], writer.gradients(rows)
        else:
            is_recompute = bool(tree.is_recompute[node])
            record = writer.call(tree.parsed[node], rows, is_recompute=is_recompute)
            yield tree.names[node], record


def _construct(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Parents and micro-steps; what stands in runs between modules is put there by any reader."""
    yield "megatron_micro_step_number", tree.micro_steps - 1
    left_out = _hung_by_readers(tree)
    parents = tree.parent.tolist()
    for node in range(1, len(tree)):
        if node in left_out or _is_run_of_apis(tree, node):
            continue
        above = parents[node]
        is_at_root = above == 0 or _is_run_of_apis(tree, above)
        parent = None if is_at_root else tree.names[above]
        yield tree.names[node], [parent, int(tree.micro_step[node])]


def _is_run_of_apis(tree: Tree, node: int) -> bool:
    name = tree.parsed[node]
    return name.kind is Kind.COLLECTION and name.stem.startswith(f"{COLLECTION}.")


def _hung_by_readers(tree: Tree) -> set[int]:
    """Gradients of parameters that stand where readers put them, so that no entry is needed.

    That is behind all other children of the module's last backward call.
    """
    backward: dict[str, dict[int, int]] = {}
    children: dict[int, list[int]] = {}
    for node, name in enumerate(tree.parsed):
        if name.kind is Kind.MODULE and name.direction is Direction.BACKWARD:
            backward.setdefault(name.stem, {})[name.call] = node
        children.setdefault(int(tree.parent[node]), []).append(node)
    found = set()
    for parent, below in children.items():
        for node in reversed(below):
            gradients = parse_gradients(tree.names[node])
            calls = backward.get(gradients[0]) if gradients and tree.record[node] >= 0 else None
            if not gradients or not calls:
                break
            call = max(calls) if gradients[1] not in calls else gradients[1]
            if calls[call] != parent:
                break
            found.add(node)
    return found


def _stacks(stacks: Stacks, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    names_of: dict[int, list[str]] = {}
    for name in names:
        stack = stacks.of_name.get(name)
        if stack is not None:
            names_of.setdefault(stack, []).append(name)
    for number, (stack, own) in enumerate(names_of.items()):
        yield str(number), [own, [format_frame(frame) for frame in stacks.stacks[stack]]]
