"""Reading one rank: dump.json, construct.json and stack.json, from files or from memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.limits import LARGEST_JSON
from msprobe_builder.base.memory import without_garbage_collection
from msprobe_builder.base.texts import Texts, storable
from msprobe_builder.dump.argument_gradients import (
    ARGUMENT_GRADIENTS,
    by_argument,
    has_argument_gradients,
)
from msprobe_builder.dump.construct import Construct, construct_path, read_construct
from msprobe_builder.dump.examples import Written
from msprobe_builder.dump.flow_file import RecordedFlow, flow_path, read_flow
from msprobe_builder.dump.json_stream import DumpReader
from msprobe_builder.dump.names import ROOT, parse_gradients
from msprobe_builder.dump.parameters import Parameters
from msprobe_builder.dump.shape_pass import without_shape_pass
from msprobe_builder.dump.source import InMemoryDump, Source
from msprobe_builder.dump.stack import Stacks, read_stacks, stack_path
from msprobe_builder.files.regular import is_packed, read_bytes
from msprobe_builder.files.text_files import parse_appended
from msprobe_builder.sketch.file import Sketches, read_sketches
from msprobe_builder.sketch.layout import NAME as SKETCHES

_SMALL = 2 << 20  # bytes of a dump.json with few records that are alike
MERGED_RANKS = "merged_ranks"  # in the head of dumps that were merged from many ranks


@dataclass(frozen=True)
class Dump:
    """What one rank directory holds.

    ``records`` maps each recorded name to its number; ``parameters.record`` refers to it.
    """

    directory: Path
    task: str
    level: str | None
    framework: str | None
    tensor_dir: Path | None
    records: dict[str, int]
    recomputed: frozenset[int]
    parameters: Parameters
    construct: Construct
    stacks: Stacks
    malformed: tuple[str, ...]
    twice: tuple[str, ...]  # keys that construct.json has more than once
    repeated: tuple[str, ...] = ()  # the same inside the records of dump.json, and in stack.json
    by_argument: bool = False  # gradients are those of arguments, not of the last autograd node
    flow: RecordedFlow | None = None  # who made its tensors, where that was recorded
    sketches: Sketches | None = None  # of its tensors, where they were recorded
    is_merged: bool = False  # from many ranks, with a hierarchy that is mended already
    shape_pass: tuple[str, ...] = ()  # calls that were left out, as no part of the training
    is_cut_off: bool = False  # the recorder was killed while it wrote

    def without_calls(self) -> Dump:
        """What tells of the dump as a whole, once its calls are in a tree and a table."""
        return replace(
            self,
            records={},
            recomputed=frozenset(),
            parameters=self.parameters.without_rows(),
            construct=Construct({}, None, 0),
            malformed=(),
            twice=(),
            repeated=(),
            shape_pass=(),
            flow=None,
            sketches=None,
        )


def read_dump(
    source: Source,
    texts: Texts,
    gradients_by_argument: bool = False,
    *,
    flat: bool = False,
    names: dict[str, str] | None = None,
) -> Dump:
    """Read one rank; names, types and shapes are interned in ``texts``.

    ``gradients_by_argument`` prefers them where the dump has them. Without stack.json no call has
    a stack. With ``flat`` no hierarchy is needed: without one it is a list of calls. Names of
    calls that are in ``names`` are the same objects in this dump, and new ones are added.

    Raises BuildError naming the file when one is missing, damaged or of an unknown form.
    """
    names = {} if names is None else names
    directory = source if isinstance(source, Path) else source.directory
    path = directory / "dump.json"
    if isinstance(source, Path):
        _require_file(path, "give the directory that holds dump.json")
    with without_garbage_collection():
        # The hierarchy first: it is small, and without it there is nothing to build.
        twice: list[str] = []
        lacks = _lacking(directory, flat=flat) if isinstance(source, Path) else ()
        hierarchy = {} if construct_path in lacks else _construct(source, twice)
        is_flat = flat and hierarchy == {}
        if not is_flat:
            construct = read_construct(hierarchy, construct_path(directory), names)
        del hierarchy  # as large as what was read of it
        repeated: list[str] = []
        stacks = read_stacks({} if stack_path in lacks else _stacks(source, repeated), names)
        reader = _InMemoryReader(source) if isinstance(source, InMemoryDump) else _file_reader(path)
        parameters = Parameters(texts)
        records: dict[str, int] = {}
        recomputed: set[int] = set()
        malformed: list[str] = []
        for name, read in reader:
            written = type(read) is Written
            data = read.alike.record if written else read
            is_record, number = isinstance(data, dict) and name != ROOT, len(records)
            # A place in a large dict is far away, so it is gone to once.
            if not is_record or records.setdefault(names.setdefault(name, name), number) < number:
                name = _of_later_pass(name, records)
                if not is_record or name in records:
                    malformed.append(name)
                    continue
                records[names.setdefault(name, name)] = number
            is_gradient = "parameters_grad" in name and parse_gradients(name) is not None
            if data.get("is_recompute") is True and not is_gradient:
                recomputed.add(number)
            if written and isinstance(reader, DumpReader):
                parameters.add_written(number, read, reader, is_gradient, gradients_by_argument)
            elif is_gradient:
                parameters.add_gradients(number, data)
            else:
                parameters.add_record(number, by_argument(data) if gradients_by_argument else data)
        if is_flat:
            calls = (name for name in records if not parse_gradients(name))
            construct = Construct(dict.fromkeys(calls), None, 0)
    task = reader.header.get("task")
    if not isinstance(task, str) or not task:
        problem = "is not text" if "task" in reader.header else "is missing"
        raise BuildError(f"{path}: the key 'task' {problem}; dump this step again.")
    flow = sketches = None
    if isinstance(source, Path) and not malformed:  # which would have taken a number
        flow = read_flow(flow_path(directory), records)
        sketches = read_sketches(directory / SKETCHES, len(records))
    tensor_dir = directory / "dump_tensor_data"
    records, construct, stacks, shape_pass = without_shape_pass(records, construct, stacks)
    return Dump(
        directory=directory,
        task=storable(task),
        level=_text_or_none(reader.header.get("level")),
        framework=_text_or_none(reader.header.get("framework")),
        # Absolute: whoever reads the database may work in another directory.
        tensor_dir=tensor_dir.absolute() if tensor_dir.is_dir() else None,
        records=records,
        recomputed=frozenset(recomputed),
        parameters=parameters,
        construct=construct,
        stacks=stacks,
        malformed=tuple(malformed),
        twice=tuple(twice),
        repeated=(*reader.twice, *repeated),
        by_argument=gradients_by_argument and ARGUMENT_GRADIENTS in reader.header,
        flow=flow,
        sketches=sketches,
        is_merged=MERGED_RANKS in reader.header,
        shape_pass=shape_pass,
        is_cut_off=reader.is_cut_off,
    )


def _file_reader(path: Path) -> DumpReader:
    """Records of large files come by example, as most are alike there."""
    try:
        is_large = path.stat().st_size > _SMALL
    except OSError:  # which the reader says in its own words
        is_large = False
    return DumpReader(path, by_example=is_large)


def _of_later_pass(name: str, records: Mapping[str, int]) -> str:
    """The name of a gradient, with the next number if one of a pass before has it already.

    Schedules that put off gradients of weights bring those of several passes at once, and
    recorders number them all alike.
    """
    stem, number = (parse_gradients(name) if name in records else None) or ("", None)
    if number is None:
        return name
    while f"{stem}.parameters_grad.{number}" in records:
        number += 1
    return f"{stem}.parameters_grad.{number}"


def _lacking(directory: Path, *, flat: bool) -> tuple[Callable[[Path], Path], ...]:
    """Which of the files beside dump.json that can be done without do not exist."""
    spared = (construct_path, stack_path) if flat else (stack_path,)
    return tuple(one for one in spared if not one(directory).exists())


class _InMemoryReader:
    """What DumpReader is for a file."""

    twice: tuple[str, ...] = ()  # an object in memory has each key once
    is_cut_off = False

    def __init__(self, source: InMemoryDump) -> None:
        if not isinstance(source.dump, Mapping):
            raise BuildError(f"{source}: dump is no object; give what json.load returns.")
        self.header = {key: value for key, value in source.dump.items() if key != "data"}
        data = source.dump.get("data")
        if not isinstance(data, Mapping):
            raise BuildError(f"{source}: dump has no object 'data'; give what json.load returns.")
        self._data = data

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self._data.items())


def _construct(source: Source, twice: list[str]) -> Any:
    if isinstance(source, InMemoryDump):
        return source.construct
    return load_json(construct_path(source), twice)


def _stacks(source: Source, repeated: list[str]) -> dict[str, Any]:
    if isinstance(source, InMemoryDump):
        content: Any = source.stack
        path = stack_path(source.directory)
    else:
        path = stack_path(source)
        _require_file(path, "dump this step again")
        content = load_json(path, repeated)
    if not isinstance(content, dict):
        raise BuildError(f"{path} does not hold a JSON object; dump this step again.")
    return content


def load_json(path: Path, twice: list[str]) -> Any:
    """Parsed content; keys that an object has twice are added to ``twice``, the last one counts."""

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    twice.append(key)
                seen.add(key)
        return content

    try:
        content, goes_on = parse_appended(read_bytes(path, LARGEST_JSON), object_pairs_hook=collect)
        if goes_on and not has_argument_gradients(path.parent):  # of another recorder
            raise ValueError
        return content
    except FileNotFoundError as error:
        hint = "dump again"
        if path.name == "construct.json":
            hint = 'dump again with level L0 or mix, and without "extra_info": false'
        raise BuildError(f"{path} does not exist; {hint}.") from error
    except OSError as error:
        raise BuildError(f"Cannot read {path}: {error.strerror}.") from error
    except RecursionError as error:
        problem = "nests values too deeply to be read"
        raise BuildError(f"{path} {problem}; dump this step again.") from error
    except ValueError as error:
        if not path.stat().st_size and path.name == "construct.json":
            return {}
        if is_packed(path):
            raise BuildError(f"{path} is compressed; unpack it.") from error
        raise BuildError(f"{path} is cut off or damaged; dump this step again.") from error


def _require_file(path: Path, remedy: str) -> None:
    if not path.exists():
        raise BuildError(f"{path} does not exist; {remedy}.")
    if path.is_dir():
        raise BuildError(f"{path} is a directory, not a file; {remedy}.")


def _text_or_none(value: Any) -> str | None:
    return storable(value) if isinstance(value, str) else None
