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
from msprobe_builder.dump.argument_gradients import ARGUMENT_GRADIENTS, has_argument_gradients
from msprobe_builder.dump.construct import Construct, construct_path, read_construct
from msprobe_builder.dump.flow_file import RecordedFlow, flow_path, read_flow
from msprobe_builder.dump.json_stream import DumpReader
from msprobe_builder.dump.latest import Latest, OfBytes, Read
from msprobe_builder.dump.names import parse_gradients
from msprobe_builder.dump.numbered import Numbered, Numbering
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
    latest: Latest | None = None,
) -> Dump:
    """Read one rank; names, types and shapes are interned in ``texts``.

    ``gradients_by_argument`` prefers them where the dump has them. Without stack.json no call has
    a stack. With ``flat`` no hierarchy is needed: without one it is a list of calls. What is equal
    to that of ``latest`` is the same objects; then it is of this dump.

    Raises BuildError naming the file when one is missing, damaged or of an unknown form.
    """
    latest = Latest() if latest is None else latest
    directory = source if isinstance(source, Path) else source.directory
    path = directory / "dump.json"
    if isinstance(source, Path):
        _require_file(path, "give the directory that holds dump.json")
    with without_garbage_collection():
        # The hierarchy first: it is small, and without it there is nothing to build.
        twice: list[str] = []
        lacks = _lacking(directory, flat=flat) if isinstance(source, Path) else ()
        known = None if construct_path in lacks else _construct(source, latest, twice, flat=flat)
        repeated: list[str] = []
        stacks = Stacks() if stack_path in lacks else _stacks(source, latest, repeated)
        reader = _InMemoryReader(source) if isinstance(source, InMemoryDump) else _file_reader(path)
        parameters = Parameters(texts)
        read = Numbered(parameters, Numbering(latest), gradients_by_argument)
        read.read(reader)
        records = latest.records = read.numbers.finish()
        recomputed, malformed = read.recomputed, read.malformed
        if known is None:
            calls = (name for name in records if not parse_gradients(name))
            construct = Construct(dict.fromkeys(calls), None, 0)
        else:
            construct = known
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


def _construct(source: Source, latest: Latest, twice: list[str], *, flat: bool) -> Construct | None:
    """The hierarchy; with ``flat`` None where there is none."""
    path = construct_path(source if isinstance(source, Path) else source.directory)

    def make(content: Any) -> Construct | None:
        return None if flat and content == {} else read_construct(content, path, latest.names)

    if isinstance(source, InMemoryDump):
        return make(source.construct)
    return _made_of_json(path, twice, make, latest.construct)


def _stacks(source: Source, latest: Latest, repeated: list[str]) -> Stacks:
    path = stack_path(source if isinstance(source, Path) else source.directory)

    def make(content: Any) -> Stacks:
        if not isinstance(content, dict):
            raise BuildError(f"{path} does not hold a JSON object; dump this step again.")
        return read_stacks(content, latest.names)

    if isinstance(source, InMemoryDump):
        return make(source.stack)
    _require_file(path, "dump this step again")
    return _made_of_json(path, repeated, make, latest.stacks)


def load_json(path: Path, twice: list[str]) -> Any:
    """Parsed content; keys that an object has twice are added to ``twice``, the last one counts."""
    return _made_of_json(path, twice, lambda content: content, OfBytes())


def _made_of_json(
    path: Path, twice: list[str], make: Callable[[Any], Read], latest: OfBytes[Any]
) -> Read:
    """What ``make`` gives of the content of a file, or gave of the same of the latest dump."""
    own: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    own.append(key)
                seen.add(key)
        return content

    goes_on = True
    try:
        written = read_bytes(path, LARGEST_JSON)
        digest, known = latest.find(written, twice)
        if known is not None:
            return known  # type: ignore[no-any-return]
        content, goes_on = parse_appended(written, object_pairs_hook=collect)
        del written
        if goes_on and not has_argument_gradients(path.parent):  # of another recorder
            raise ValueError
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
        if path.stat().st_size or path.name != "construct.json":
            if is_packed(path):
                raise BuildError(f"{path} is compressed; unpack it.") from error
            raise BuildError(f"{path} is cut off or damaged; dump this step again.") from error
        content = {}
    twice += own
    made = make(content)
    if not goes_on:  # which one recorder alone may do
        latest.keep(digest, made, own)
    return made


def _require_file(path: Path, remedy: str) -> None:
    if not path.exists():
        raise BuildError(f"{path} does not exist; {remedy}.")
    if path.is_dir():
        raise BuildError(f"{path} is a directory, not a file; {remedy}.")


def _text_or_none(value: Any) -> str | None:
    return storable(value) if isinstance(value, str) else None
