"""An error planted into a dump that was recorded: a call or a weight is off, and all made of it.

Nothing is computed again. All numbers of what is made of something wrong are off by the same share,
as if each call handed on what it was given, so the truth is known without any model: the call, how
far it is off, and which others follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from msprobe_builder.base.codes import Direction, Kind
from msprobe_builder.dump.names import Name, parse_gradients, parse_name
from tests.properties.rewriting import Dump, Rewrite

_STATISTICS = ("Max", "Min", "Mean", "Norm")
_ENDS = 3  # calls that a pass ends with
Tensor = dict[str, Any]
Key = tuple[Any, ...]


@dataclass
class _Spread:
    """Which tensors and calls are off so far."""

    share: float
    tensors: set[Key] = field(default_factory=set)
    calls: set[tuple[str, int]] = field(default_factory=set)

    def seen(self, record: Any) -> Any:
        """A record with its tensors as they are read."""
        return _each(record, lambda one: self._off(one) if key(one) in self.tensors else one)

    def made(self, record: Any) -> Any:
        """A record whose tensors are made of something wrong."""
        self.tensors |= {key(one) for one in tensors(record) if _carries(one)}
        return self.seen(record)

    def _off(self, tensor: Tensor) -> Tensor:
        return {**tensor, **{name: tensor[name] * (1 + self.share) for name in _STATISTICS}}


def planted(call: str, share: float) -> Rewrite:
    """What a call puts out, off by a share of its size, and with it all that is made of it."""
    return _spread(call, share, set())


def planted_weight(weight: Tensor, share: float) -> Rewrite:
    """The same of a weight, wherever it is taken in."""
    return _spread("", share, {key(weight)})


def planted_argument(call: str, place: int, share: float) -> Rewrite:
    """The same of a number that a call is given by place, and of what it puts out."""
    off = planted(call, share)

    def rewrite(dump: Dump) -> Dump:
        dump = off(dump)
        record = dump.data[call]
        given = [*record["input_args"]]
        given[place] = {**given[place], "value": given[place]["value"] * (1 + share)}
        return replace(dump, data={**dump.data, call: {**record, "input_args": given}})

    return rewrite


def _spread(call: str, share: float, off: set[Key]) -> Rewrite:
    def rewrite(dump: Dump) -> Dump:
        spread = _Spread(share, set(off))
        data = {
            name: _called(spread, name, record, is_origin=name == call)
            for name, record in dump.data.items()
            if _is_call(name)
        }
        # A module takes and hands out what calls have made, some of them later.
        data |= {
            name: spread.seen(record)
            for name, record in dump.data.items()
            if parse_name(name).direction is not Direction.NONE and name not in data
        }
        below = {
            parse_name(_module(above)).stem
            for name, above in dump.parents.items()
            if _call(parse_name(name)) in spread.calls and above is not None
        }
        for name, record in dump.data.items():
            if name not in data:
                stem = (parse_gradients(name) or (name,))[0]
                data[name] = spread.made(record) if stem in below else record
        return replace(dump, data={name: data[name] for name in dump.data})

    return rewrite


def _is_call(name: str) -> bool:
    parsed = parse_name(name)
    return parsed.kind is Kind.API and parsed.direction is not Direction.NONE


def _called(spread: _Spread, name: str, record: Any, *, is_origin: bool) -> Any:
    parsed = parse_name(name)
    given = {part: value for part, value in record.items() if part != "output"}
    is_off = is_origin or any(key(one) in spread.tensors for one in tensors(given))
    is_off |= parsed.direction is Direction.BACKWARD and _call(parsed) in spread.calls
    given = {part: spread.seen(value) for part, value in given.items()}
    if not is_off:
        return {**record, **given}
    spread.calls.add(_call(parsed))
    return {**record, **given, "output": spread.made(record["output"])}


def _call(name: Name) -> tuple[str, int]:
    return name.stem, name.call


def _module(above: Any) -> str:
    return str(above[0] if isinstance(above, list) else above)


def key(tensor: Tensor) -> Key:
    """What a tensor is found again by."""
    statistics = (tensor.get(name) for name in _STATISTICS)
    return (tensor["dtype"], tuple(tensor["shape"]), *statistics)


def is_measured(tensor: Tensor) -> bool:
    """Whether its numbers say how large it is."""
    numbers = [tensor.get(name) for name in _STATISTICS]
    is_floating = "float" in tensor["dtype"] and all(isinstance(one, float) for one in numbers)
    return is_floating and numbers[0] != numbers[1] and max(map(abs, numbers[:2])) < 1e4  # type: ignore[arg-type]


def _carries(tensor: Tensor) -> bool:
    """Whether an error shows in it: also in a single number, unless that is a constant."""
    is_loss = tensor["shape"] == [] and "float" in tensor["dtype"]
    return is_measured(tensor) or (is_loss and tensor.get("Max") not in (None, 0.0, 1.0))


def tensors(record: Any) -> Iterator[Tensor]:
    if isinstance(record, list):
        for one in record:
            yield from tensors(one)
    elif isinstance(record, dict) and "shape" in record:
        yield record
    elif isinstance(record, dict):
        for one in record.values():
            yield from tensors(one)


def _each(record: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(record, list):
        return [_each(one, change) for one in record]
    if isinstance(record, Mapping) and "shape" in record:
        return change(dict(record))
    if isinstance(record, Mapping):
        return {name: _each(value, change) for name, value in record.items()}
    return record


def places(dump: Dump) -> list[str]:
    """Calls that put out one measured tensor, with numbers that were nowhere before.

    What merely moves numbers is none: it puts out what it was given.
    """
    before: set[Key] = set()
    found = []
    for name, record in dump.data.items():
        output = list(tensors(record["output"])) if _is_call(name) else []
        before |= {key(one)[2:] for one in tensors(record) if one not in output}
        if len(output) == 1 and is_measured(output[0]) and key(output[0])[2:] not in before:
            found.append(name)
        before |= {key(one)[2:] for one in output}
    return found


def hands_on(dump: Dump, place: str) -> bool:
    """Whether the forward call of a gradient puts out what it is given, as a cast to its type."""
    record = dump.data.get(place.removesuffix("backward") + "forward", {})
    given = {part: value for part, value in record.items() if part != "output"}
    before = {key(one) for one in tensors(given)}
    return any(key(one) in before for one in tensors(record.get("output")))


def is_felt(dump: Dump, place: str) -> bool:
    """Whether what is planted at a call shows in what its module, and its pass, end with.

    As nothing is computed again, the trace of a tensor is lost where a number of it is rounded.
    """
    after = planted(place, 0.5)(dump)
    changed = [name for name, record in dump.data.items() if after.data[name] != record]
    direction, above = parse_name(place).direction, dump.parents.get(place)
    module = None if above is None else dump.data.get(_module(above))
    if module and "output" in module and after.data[_module(above)]["output"] == module["output"]:
        return False
    if direction is Direction.BACKWARD and any(parse_gradients(name) for name in changed):
        return True
    last = [
        name for name in dump.data if _is_call(name) and parse_name(name).direction is direction
    ]
    return any(name in changed for name in last[-_ENDS:])


def takes_indices(dump: Dump, place: str) -> bool:
    """Whether a call is given whole numbers that say where; these may stand at other places."""
    given = {part: value for part, value in dump.data[place].items() if part != "output"}
    return any("int" in one["dtype"] or "bool" in one["dtype"] for one in tensors(given))


def weights(dump: Dump) -> list[tuple[str, Tensor]]:
    """Modules and measured weights that they alone have."""
    found = [
        (name, tensor)
        for name, record in dump.data.items()
        if parse_name(name).direction is Direction.FORWARD
        for tensor in tensors(record.get("parameters", {}))
    ]
    stems: dict[Key, set[str]] = {}
    for name, tensor in found:
        stems.setdefault(key(tensor), set()).add(parse_name(name).stem)
    return [one for one in found if is_measured(one[1]) and len(stems[key(one[1])]) == 1]


def factors(dump: Dump) -> list[tuple[str, int]]:
    """Calls that multiply a measured tensor by a number, and where this stands."""
    return [
        (name, place)
        for name in places(dump)
        if parse_name(name).stem.rpartition(".")[2] in ("__mul__", "mul")
        for place, given in enumerate(dump.data[name].get("input_args", ()))
        if isinstance(given, dict) and given.get("type") == "float"
    ]
