"""One run under another spelling: real dumps changed by script, so that the truth is known.

Each change takes a recording and returns another one. The truth travels along: ``origin`` says
which call of the first recording each call is, None for what was added.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from msprobe_builder.base.codes import Direction, Kind
from msprobe_builder.dump.names import Name, format_name, parse_gradients, parse_name
from msprobe_builder.dump.source import InMemoryDump

Change = Callable[["Recording"], "Recording"]


@dataclass(frozen=True)
class Recording:
    """The content of a dump: records in order of execution, parents, and where each came from."""

    head: dict[str, Any]
    data: dict[str, Any]
    parent: dict[str, Any]
    origin: dict[str, str | None]

    def source(self) -> InMemoryDump:
        """What the builder reads."""
        return InMemoryDump({**self.head, "data": self.data}, self.parent)


def recording(directory: Path) -> Recording:
    """Read a real dump as the first recording of a truth."""
    dump = json.loads((directory / "dump.json").read_text("utf-8"))
    parent = json.loads((directory / "construct.json").read_text("utf-8"))
    data = dump.pop("data")
    calls = [name for name, above in parent.items() if not isinstance(above, int)]
    return Recording(dump, data, parent, {name: name for name in [*calls, *data]})


def truth(of: Recording) -> dict[str, str]:
    """The right partner of each call that has one."""
    return {name: first for name, first in of.origin.items() if first is not None}


def chained(*changes: Change) -> Change:
    """One change after the other."""

    def change(before: Recording) -> Recording:
        for one in changes:
            before = one(before)
        return before

    return change


def _renamed(before: Recording, new: Callable[[str], str]) -> Recording:
    """All names replaced; the order stays."""

    def parent(value: Any) -> Any:
        if isinstance(value, list):
            return [parent(value[0]), *value[1:]]
        return new(value) if isinstance(value, str) else value

    return replace(
        before,
        data={new(name): record for name, record in before.data.items()},
        parent={new(name): parent(value) for name, value in before.parent.items()},
        origin={new(name): first for name, first in before.origin.items()},
    )


def modules_renamed(before: Recording, new: Callable[[list[str]], list[str]]) -> Recording:
    """Stems of modules replaced; ``new`` gets the parts behind ``Module``, the class last."""
    known: dict[str, str] = {}

    def stem(old: str) -> str:
        if old not in known:
            first, *parts = old.split(".")
            known[old] = ".".join([first, *new(parts)])
        return known[old]

    def name(old: str) -> str:
        parsed = parse_name(old)
        if parsed.kind is not Kind.MODULE:
            return old
        if parsed.direction is not Direction.NONE:
            return format_name(parsed._replace(stem=stem(parsed.stem)))
        gradients = parse_gradients(old)
        if gradients is None:
            return old
        number = "" if gradients[1] is None else f".{gradients[1]}"
        return f"{stem(gradients[0])}.parameters_grad{number}"

    return _renamed(before, name)


def _word(text: str, salt: str) -> str:
    return "".join(chr(97 + byte % 26) for byte in sha256((salt + text).encode()).digest()[:7])


def other_classes(before: Recording) -> Recording:
    """Every class has another name that shares no word with its own."""
    return modules_renamed(before, lambda parts: [*parts[:-1], _word(parts[-1], "C").title()])


def other_attributes(before: Recording) -> Recording:
    """Every attribute has another name; indexes of lists stay."""

    def new(parts: list[str]) -> list[str]:
        return [part if part.isdigit() else _word(part, "a") for part in parts[:-1]] + parts[-1:]

    return modules_renamed(before, new)


def prefixed(prefix: str) -> Change:
    """All modules stand below an attribute that the dump has no call of, as with DDP."""
    return lambda before: modules_renamed(before, lambda parts: [*prefix.split("."), *parts])


def wrapped(is_chosen: Callable[[Name], bool], attribute: str, class_name: str) -> Change:
    """A module around each chosen module that passes through, recorded like any other."""

    def change(before: Recording) -> Recording:
        chosen = {
            parsed.stem
            for parsed in map(parse_name, before.origin)
            if parsed.kind is Kind.MODULE and parsed.direction is not Direction.NONE
            if is_chosen(parsed)
        }
        paths = {stem.split(".", 1)[1].rpartition(".")[0] for stem in chosen}

        def new(parts: list[str]) -> list[str]:
            result = []
            for end in range(1, len(parts) + 1):
                result.append(parts[end - 1])
                if end < len(parts) and ".".join(parts[:end]) in paths:
                    result.append(attribute)
            return result

        inner = modules_renamed(before, new)
        outer: dict[str, str] = {}
        for name in inner.origin:
            parsed = parse_name(name)
            parts = parsed.stem.split(".")
            if parsed.direction is Direction.NONE or parsed.kind is not Kind.MODULE:
                continue
            if len(parts) > 2 and parts[-2] == attribute:
                outer[name] = format_name(parsed._replace(stem=".".join([*parts[:-2], class_name])))
        data: dict[str, Any] = {}
        for name, record in inner.data.items():
            data[name] = record
            if name in outer:
                data[outer[name]] = {
                    key: value for key, value in record.items() if key != "parameters"
                }
        parent: dict[str, Any] = {}
        for name, value in inner.parent.items():
            if name in outer:
                parent[outer[name]] = value
                parent[name] = [outer[name], *value[1:]] if isinstance(value, list) else outer[name]
            else:
                parent[name] = value
        return replace(
            inner,
            data=data,
            parent=parent,
            origin={**inner.origin, **dict.fromkeys(outer.values())},
        )

    return change


def is_layer(name: Name) -> bool:
    """Whether a module stands in a list, as the layers of a model do."""
    parts = name.stem.split(".")
    return len(parts) > 2 and parts[-2].isdigit()


def renumbered(before: Recording) -> Recording:
    """Call numbers of APIs as a collector counts them: by name, in order of the forward calls."""
    new: dict[str, str] = {}
    count: dict[str, int] = {}
    of_call: dict[tuple[str, int], int] = {}
    for name in before.data or before.parent:
        parsed = parse_name(name)
        if parsed.kind is Kind.API and parsed.direction is Direction.FORWARD:
            number = of_call[parsed.stem, parsed.call] = count.get(parsed.stem, 0)
            count[parsed.stem] = number + 1
    for name in before.origin:
        parsed = parse_name(name)
        if parsed.kind is Kind.API:
            key = (parsed.stem, parsed.call)
            if key not in of_call:
                of_call[key] = count.get(parsed.stem, 0)
                count[parsed.stem] = of_call[key] + 1
            new[name] = format_name(parsed._replace(call=of_call[key]))
    return _renamed(before, lambda name: new.get(name, name))


def _without(before: Recording, gone: Callable[[str], bool]) -> Recording:
    return replace(
        before,
        data={name: value for name, value in before.data.items() if not gone(name)},
        parent={name: value for name, value in before.parent.items() if not gone(name)},
        origin={name: value for name, value in before.origin.items() if not gone(name)},
    )


def dropped_calls(share: float, seed: int) -> Change:
    """Some API calls are not made, nor their backward; the counters go on without them."""

    def change(before: Recording) -> Recording:
        chance = random.Random(seed)  # noqa: S311 (a test, no secret)
        gone: dict[tuple[str, int], bool] = {}

        def is_gone(name: str) -> bool:
            parsed = parse_name(name)
            if parsed.kind is not Kind.API:
                return False
            key = (parsed.stem, parsed.call)
            if key not in gone:
                gone[key] = chance.random() < share
            return gone[key]

        for name in before.data or before.parent:
            is_gone(name)
        return renumbered(_without(before, is_gone))

    return change


def added_casts(share: float, seed: int) -> Change:
    """Some tensors are cast before they are used: a call more that changes nothing."""

    def change(before: Recording) -> Recording:
        chance = random.Random(seed)  # noqa: S311 (a test, no secret)
        data: dict[str, Any] = {}
        parent: dict[str, Any] = {}
        added: list[str] = []
        casts: dict[str, str] = {}
        for name, record in before.data.items():
            parsed = parse_name(name)
            inputs = record.get("input_args") or [] if isinstance(record, dict) else []
            tensor = next((one for one in inputs if isinstance(one, dict) and "shape" in one), None)
            is_call = parsed.kind is Kind.API and parsed.direction is Direction.FORWARD
            if is_call and tensor is not None and chance.random() < share:
                cast = f"Tensor.to.{1_000_000 + len(added)}.forward"
                added.append(cast)
                casts[name] = cast
                dtype = {"type": "torch.dtype", "value": "torch.float32"}
                data[cast] = {
                    "input_args": [tensor],
                    "input_kwargs": {"dtype": dtype},
                    "output": [tensor],
                }
            data[name] = record
        for name, value in before.parent.items():
            if name in casts:
                parent[casts[name]] = value
            parent[name] = value
        origin = {**before.origin, **dict.fromkeys(added)}
        return renumbered(replace(before, data=data, parent=parent, origin=origin))

    return change


def without_modules(is_gone: Callable[[Name], bool]) -> Change:
    """Some modules are not there, nor anything below them."""

    def change(before: Recording) -> Recording:
        def lost(name: str) -> bool:
            current: Any = name
            while isinstance(current, str):
                parsed = parse_name(current)
                gradients = parse_gradients(current)
                if gradients is not None:
                    parsed = Name(Kind.MODULE, gradients[0], Direction.NONE, 0)
                if parsed.kind is Kind.MODULE and is_gone(parsed):
                    return True
                above = before.parent.get(current)
                current = above[0] if isinstance(above, list) else above
            return False

        return renumbered(_without(before, lost))

    return change


def without_calls(before: Recording) -> Recording:
    """Level L0: modules alone."""
    return _without(before, lambda name: parse_name(name).kind is Kind.API)


def _tensors_changed(
    before: Recording, new: Callable[[dict[str, Any]], dict[str, Any]]
) -> Recording:
    def value(old: Any) -> Any:
        if isinstance(old, dict):
            if "shape" in old and "dtype" in old:
                return new(old)
            return {key: value(inner) for key, inner in old.items()}
        return [value(inner) for inner in old] if isinstance(old, list) else old

    return replace(before, data={name: value(record) for name, record in before.data.items()})


def other_seed(seed: int) -> Change:
    """Other weights and data: no statistic says anything of its counterpart."""

    def change(before: Recording) -> Recording:
        chance = random.Random(seed)  # noqa: S311 (a test, no secret)

        def new(tensor: dict[str, Any]) -> dict[str, Any]:
            factor = chance.uniform(0.3, 3.0)
            keys = ("Max", "Min", "Mean", "Norm")
            return tensor | {
                key: tensor[key] * factor
                for key in keys
                if isinstance(tensor.get(key), int | float)
            }

        return _tensors_changed(before, new)

    return change


def other_sizes(before: Recording) -> Recording:
    """A wider model with a longer sequence: every dimension but the batch times three."""

    def new(tensor: dict[str, Any]) -> dict[str, Any]:
        shape = tensor["shape"]
        return tensor | {"shape": [size if size <= 2 else 3 * size for size in shape]}

    return _tensors_changed(before, new)


def without_statistics(before: Recording) -> Recording:
    """A structure dump: names, types and shapes alone."""
    keys = ("Max", "Min", "Mean", "Norm")
    return _tensors_changed(
        before, lambda tensor: {key: tensor[key] for key in tensor if key not in keys}
    )


def scaled_behind(call: str, factor: float) -> Change:
    """From a call on, every tensor has other values; one that is handed on stays the same."""

    def change(before: Recording) -> Recording:
        names = list(before.data)
        behind = set(names[names.index(call) + 1 :])

        def new(tensor: dict[str, Any]) -> dict[str, Any]:
            keys = [
                key
                for key in ("Max", "Min", "Mean", "Norm")
                if isinstance(tensor.get(key), int | float)
            ]
            return tensor | {key: tensor[key] * factor for key in keys}

        changed = _tensors_changed(before, new)
        data = {name: (changed if name in behind else before).data[name] for name in before.data}
        return replace(before, data=data)

    return change
