"""The parameters of all calls of a dump, flattened into columns.

A record nests lists and objects; each leaf becomes one parameter with a dotted name
(``input.0.1``, ``input.mask``, ``output.0``, ``parameters.weight``). Records that differ in their
statistics alone have their rows in common (examples.py), so that a dump of a million tensors costs
a hundred megabytes, and little time for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isinf, isnan
from operator import itemgetter
from typing import Any

from msprobe_builder.base.codes import Section as Section
from msprobe_builder.base.limits import DEEPEST_VALUE
from msprobe_builder.base.texts import Texts, storable
from msprobe_builder.dump.argument_gradients import by_argument
from msprobe_builder.dump.examples import (
    BYTES,
    Example,
    Several,
    Written,
    decode_noting,
    example_of,
)
from msprobe_builder.dump.json_stream import DumpReader
from msprobe_builder.dump.parameter_columns import (
    ALL_MISSING,
    NO_TEXT,
    STATISTICS,
    ParameterColumns,
    ParameterKind,
)

_NAN = float("nan")
# The collector puts these in place of statistics it has not finished; a crash can leave them.
_UNFINISHED = ("tensor_stat_index", "md5_index")
# Of one form, with other numbers that are no statistics.
_MOST_EXAMPLES = 16


SECTION_KEYS = (
    ("input_args", Section.INPUT, "input"),
    ("input_kwargs", Section.INPUT, "input"),
    ("input", Section.INPUT, "input"),
    ("output", Section.OUTPUT, "output"),
    ("parameters", Section.PARAMETERS, "parameters"),
)
# A tensor with statistics as collectors write it has these keys and no others.
_PLAIN_KEYS = ("type", "dtype", "shape", *STATISTICS, "requires_grad")
_plain = itemgetter(*_PLAIN_KEYS)
_NUMBERED = {
    prefix: [f"{prefix}.{number}" for number in range(32)] for _, _, prefix in SECTION_KEYS
}


class Parameters(ParameterColumns):
    """The parameters of all records of a dump, appended as they are read."""

    def __init__(self, texts: Texts) -> None:
        super().__init__(texts)
        self.unreadable = 0
        self._derived = 0  # statistics that were computed of others
        self.odd_statistics = 0  # neither a number nor null; texts of numbers are read as such
        self._plain_kinds: dict[str, int] = {}  # by how type, dtype and shape are written
        self._shapes: dict[tuple[Any, ...], tuple[int, float]] = {}
        # By the number of how they are written, of calls and of gradients.
        self._examples: tuple[dict[int, list[Example]], ...] = {}, {}
        # First row and length of examples of which all numbers are statistics, in the same way.
        self._plain_examples: tuple[dict[int, tuple[int, int]], ...] = {}, {}

    def without_rows(self) -> Parameters:
        """What tells of the dump as a whole, texts, checksums and types, without the rows."""
        rest = Parameters(self.texts)
        rest.md5, rest.file, rest._kinds = self.md5, self.file, self._kinds
        rest.unreadable, rest.odd_statistics = self.unreadable, self.odd_statistics
        return rest

    def add_record(self, record: int, data: dict[str, Any]) -> None:
        """Append every parameter of one call."""
        first = self._begin_record()
        self._add_call(data)
        self._end_record(record, first)

    def add_gradients(self, record: int, data: dict[str, Any]) -> None:
        """Append the parameter gradients of one module, each in a list of one."""
        first = self._begin_record()
        self._add_gradients(data)
        self._end_record(record, first)

    def add_several(
        self,
        first: int,
        several: Several,
        gradients: list[bool],
        reader: DumpReader,
        gradients_by_argument: bool,
    ) -> None:
        """Append records that follow each other, the first of which has the number ``first``."""
        numbers, begun, at, extend = memoryview(several.numbers), 0, 0, self._runs.extend
        for record, (one, is_gradient) in enumerate(
            zip(several.alike, gradients, strict=True), first
        ):
            end = at + BYTES * one.numbers
            known = self._plain_examples[is_gradient].get(one.number)
            if known is not None:
                extend((record, *known))
                self._length += known[1]
            else:
                self._numbers.frombytes(numbers[begun:at])
                written = Written(one, bytes(numbers[at:end]))
                self.add_written(record, written, reader, is_gradient, gradients_by_argument)
                begun = end
            at = end
        self._numbers.frombytes(numbers[begun:])

    def add_written(
        self,
        record: int,
        written: Written,
        reader: DumpReader,
        is_gradient: bool,
        gradients_by_argument: bool,
    ) -> None:
        """Append what the reader gave by an example, as the two above would the whole."""
        alike, numbers = written
        examples = self._examples[is_gradient].setdefault(alike.number, [])
        for example in examples:
            for place, one in example.constants:
                if numbers[place] != one:
                    break
            else:
                picked = numbers if example.is_plain else example.picked(numbers)
                self._repeat(record, example.first, example.length, picked)
                return
        # Read in full; it is an example from then on, if all of it is in columns.
        before = self._oddities(reader)
        data, objects = decode_noting(written.text(), reader.collect)
        if gradients_by_argument and not is_gradient:
            data = by_argument(data)
        first = self._begin_record()
        before_it, taken = self._numbers, list[float]()
        self._numbers = taken  # type: ignore[assignment] # for a while, as it keeps the objects
        try:
            (self._add_gradients if is_gradient else self._add_call)(data)
        finally:
            self._numbers = before_it
        before_it.extend(taken)
        self._end_record(record, first)
        # Which numbers became statistics, and in which order: these are the objects themselves.
        place_of = {id(one): place for place, (_, one) in enumerate(objects)}
        places = [place_of.get(id(one), -1) for one in taken]
        if self._oddities(reader) != before or len(examples) == _MOST_EXAMPLES:
            return
        sections = data if is_gradient else {key: data.get(key) for key, *_ in SECTION_KEYS}
        read = {place_of[one] for one in _numbers_in(sections) if one in place_of}
        count = self._row_count() - first
        example = example_of(numbers, taken, places, read, first, count)
        if example.is_plain and not examples:
            self._plain_examples[is_gradient][alike.number] = example.first, example.length
        examples.append(example)

    def _oddities(self, reader: DumpReader) -> tuple[int, ...]:
        """What is counted or kept beside the columns."""
        odd = self.unreadable, self.odd_statistics, self._derived
        return (*odd, len(reader.twice), len(self.md5), len(self.file))

    def _add_call(self, data: dict[str, Any]) -> None:
        for key, section, prefix in SECTION_KEYS:
            value = data.get(key)
            if not value:
                continue
            if isinstance(value, list):
                names = _NUMBERED[prefix]
                for index, item in enumerate(value):
                    name = names[index] if index < len(names) else f"{prefix}.{index}"
                    self._add(section, name, item, 0)
            elif isinstance(value, dict):
                for name, item in value.items():
                    self._add(section, f"{prefix}.{name}", item, 0)
            else:
                self.unreadable += 1

    def _add_gradients(self, data: dict[str, Any]) -> None:
        for name, value in data.items():
            items = value if isinstance(value, list) else [value]
            for index, item in enumerate(items):
                suffix = f".{index}" if len(items) > 1 else ""
                section = Section.PARAMETERS_GRAD
                self._add(section, f"parameters_grad.{name}{suffix}", item, 0)

    def _add(self, section: int, name: str, value: Any, depth: int) -> None:
        if isinstance(value, dict):
            if len(value) == len(_PLAIN_KEYS) and self._add_plain(section, name, value):
                return
            kind = value.get("type")
            if isinstance(kind, str):
                if "shape" in value and "dtype" in value:
                    self._add_tensor(section, name, kind, value)
                else:
                    self._add_argument(section, name, kind, value)
                return
            if "class_type" in value and isinstance(value.get("tensor"), dict):
                self._add_peer_operation(section, name, value, depth)
                return
            if depth >= DEEPEST_VALUE:
                self.unreadable += 1
                return
            for key, item in value.items():
                self._add(section, f"{name}.{key}", item, depth + 1)
        elif isinstance(value, list):
            if depth >= DEEPEST_VALUE:
                self.unreadable += 1
                return
            for index, item in enumerate(value):
                self._add(section, f"{name}.{index}", item, depth + 1)
        elif value is None:
            self._append(section, name, NO_TEXT, NO_TEXT)
        else:  # the collector writes no bare scalars, but nothing is lost if it does
            self._append(section, name, NO_TEXT, self.texts.id(shown(value)))

    def _add_plain(self, section: int, name: str, value: dict[str, Any]) -> bool:
        """Append a tensor that has what nearly all have, in a few steps; False for any other."""
        try:
            kind, dtype, shape, high, low, mean, norm, requires_grad = _plain(value)
            if not (type(high) is type(low) is type(mean) is type(norm) is float):
                return False
            written = f"{kind!r}{dtype!r}{shape!r}{requires_grad!r}"
        except (KeyError, RecursionError, ValueError):  # another record, or not to be written
            return False
        known = self._plain_kinds.get(written)
        if known is None:
            if not isinstance(kind, str):
                return False
            self._add_tensor(section, name, kind, value)
            self._plain_kinds[written] = self._rows[-2]
            return True
        numbers = high, low, mean, norm
        self._append_known_row(section, self.texts.id(name), known, numbers, 0)
        return True

    def _add_tensor(self, section: int, name: str, kind: str, value: dict[str, Any]) -> None:
        index = len(self)
        type_id, name_id = self.texts.id(kind), self.texts.id(name)
        parts = value.get("placements")  # of a distributed tensor: what it is of the whole
        placed = self.texts.id(", ".join(map(shown, parts))) if isinstance(parts, list) else NO_TEXT
        dtype = value["dtype"]
        dtype_id = NO_TEXT if dtype is None else self.texts.id(shown(dtype))
        shape_id, numel = self._shape(value["shape"])
        if shape_id == NO_TEXT:  # merged along a dimension that is not known
            number = _number(value.get("numel"))
            numel = _NAN if number is None else number
        requires_grad = value.get("requires_grad")
        has_grad = int(requires_grad) if isinstance(requires_grad, bool) else -1
        missing = 0
        statistics = []
        for bit, key in enumerate(STATISTICS):
            number = value.get(key)
            if type(number) is not float:
                if number is not None and type(number) not in (int, bool):
                    self.odd_statistics += 1
                number = _read_statistic(number)
                if number is None:
                    missing |= 1 << bit
                    continue
            statistics.append(number)
        md5 = value.get("md5")
        only = md5 if type(md5) is float else _number(md5)
        if only is not None and numel == 1 and missing == ALL_MISSING:
            # A recorder of checksums writes a single number itself.
            missing, statistics = 0, [only, only, only, abs(only)]
            self._derived += 1
        one = ParameterKind(True, type_id, dtype_id, shape_id, placed, has_grad, numel)
        self._append_row(section, name_id, one, statistics, missing)
        if isinstance(md5, str):
            self.md5[index] = storable(md5)
        file = value.get("data_name")
        if isinstance(file, str) and file and file != "-1":
            self.file[index] = storable(file)

    def _add_argument(self, section: int, name: str, kind: str, value: dict[str, Any]) -> None:
        content = next(
            (value[key] for key in ("value", "format", "group_ranks") if key in value), None
        )
        if content is None and len(value) > 1:
            content = {
                key: item for key, item in value.items() if key not in ("type", *_UNFINISHED)
            }
        text = NO_TEXT if content is None else self.texts.id(shown(content))
        like_a_shape = kind in ("torch.Size", "slice")  # takes part in matching like one
        shape_id = text if like_a_shape else NO_TEXT
        self._append(section, name, self.texts.id(kind), text, shape_id)

    def _add_peer_operation(
        self, section: int, name: str, value: dict[str, Any], depth: int
    ) -> None:
        """A P2POp: its tensor, then operation, peer, tag and group as arguments."""
        self._add(section, f"{name}.tensor", value["tensor"], depth + 1)
        for key in ("op", "peer", "tag", "group_id"):
            if key in value:
                text = self.texts.id(shown(value[key]))
                kind = self.texts.id(type(value[key]).__name__)
                self._append(section, f"{name}.{key}", kind, text)

    def _append(
        self,
        section: int,
        name: str,
        type_id: int,
        value_id: int,
        shape_id: int = NO_TEXT,
    ) -> None:
        """Append what is no tensor."""
        kind = ParameterKind(False, type_id, NO_TEXT, shape_id, value_id, -1, _NAN)
        self._append_row(section, self.texts.id(name), kind)

    def _shape(self, shape: Any) -> tuple[int, float]:
        if not isinstance(shape, list):
            return (NO_TEXT if shape is None else self.texts.id(shown(shape))), _NAN
        key = tuple(shape) if all(type(size) is int for size in shape) else (shown(shape),)
        known = self._shapes.get(key)
        if known is None:
            numel = 1.0
            for size in key:
                number = _number(size)
                numel *= _NAN if number is None else number
            known = self._shapes[key] = (self.texts.id(shown(shape)), numel)
        return known


def _numbers_in(value: Any) -> Iterator[int]:
    """The identities of all floating-point numbers in a value of JSON."""
    left = [value]
    while left:
        one = left.pop()
        if type(one) is float:
            yield id(one)
        elif isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list):
            left += one


def _number(value: Any) -> float | None:
    """A statistic as float64; None when it was not recorded as a number."""
    if isinstance(value, bool | int):
        try:
            return float(value)
        except OverflowError:
            return inf if value > 0 else -inf
    return None


def _read_statistic(value: Any) -> float | None:
    """The same, also of a number that was written as text: "NaN" must not pass as unrecorded."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return _number(value)


def shown(value: Any) -> str:
    """How a value that is not a tensor is shown: as Python would print it."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and (isnan(value) or isinf(value)):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    try:
        return str(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
        return f"<{type(value).__name__} that cannot be shown>"
