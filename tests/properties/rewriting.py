"""Real dumps told otherwise: what happened is the same, so the verdict must be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msprobe_builder.base.codes import Direction, Kind
from msprobe_builder.dump.names import format_name, parse_name

# What is written into masks, and the largest numbers of a format: no measurement.
_MASK_VALUE = 1e4
_STATISTICS = ("Max", "Min", "Mean", "Norm")
_PEERS = ("src", "dst", "peer", "group_src", "group_dst")


@dataclass(frozen=True)
class Dump:
    """One step of one rank: records by name, the parent of each call, calls by stack."""

    head: dict[str, Any]
    data: dict[str, Any]
    parents: dict[str, Any]
    stacks: dict[str, Any]


Rewrite = Callable[[Dump], Dump]


def rewritten(source: Path, target: Path, rewrite: Rewrite) -> Path:
    """A copy of all dumps below a folder, each of them rewritten."""
    for path in sorted(source.rglob("dump.json")):
        folder = target / path.parent.relative_to(source)
        folder.mkdir(parents=True)
        new = rewrite(read_dump(path.parent))
        for name, content in (
            ("dump", {**new.head, "data": new.data}),
            ("construct", new.parents),
            ("stack", new.stacks),
        ):
            (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return target


def read_dump(folder: Path) -> Dump:
    """What was recorded of one step and rank, somewhere below a folder."""
    [path] = folder.rglob("dump.json")
    head = _read(path)
    data = head.pop("data")
    beside = [_read(path.with_name(f"{name}.json")) for name in ("construct", "stack")]
    return Dump(head, data, *beside)


def named(new: Callable[[str], str]) -> Rewrite:
    """All calls by other names."""

    def parent(value: Any) -> Any:
        if isinstance(value, list):
            return [parent(value[0]), *value[1:]]
        return new(value) if isinstance(value, str) else value

    def rewrite(dump: Dump) -> Dump:
        return replace(
            dump,
            data={new(name): record for name, record in dump.data.items()},
            parents={new(name): parent(above) for name, above in dump.parents.items()},
            stacks={
                key: [[new(name) for name in names], lines]
                for key, (names, lines) in dump.stacks.items()
            },
        )

    return rewrite


def alias(operators: Mapping[str, str]) -> Callable[[str], str]:
    """The name of a call when operators are called as another library does."""
    assert len(set(operators.values())) == len(operators), "two operators cannot share a name"

    def new(name: str) -> str:
        parsed = parse_name(name)
        if parsed.kind is not Kind.API or parsed.direction is Direction.NONE:
            return name
        return format_name(parsed._replace(stem=operators.get(parsed.stem, parsed.stem)))

    return new


def scaled(power: int) -> Rewrite:
    """All that is measured of floating tensors, times two to a power.

    Whole numbers and truth values count something, and values of masks and of other limits of a
    format are no measurements: they stay. So do plain arguments: what a call is told does not
    change with its units. Where a tensor is squared or has a logarithm taken of it the numbers
    would be of no real run, but both sides' differ as before.
    """

    def number(value: float) -> float:
        return value * 2.0**power if abs(value) < _MASK_VALUE else value

    def of(record: Any) -> Any:
        if isinstance(record, list):
            return [of(one) for one in record]
        if not isinstance(record, dict):
            return record
        if str(record.get("dtype", "")).startswith(("torch.float", "torch.bfloat")):
            measured = {key: record[key] for key in _STATISTICS if _is_number(record.get(key))}
            return {**record, **{key: number(value) for key, value in measured.items()}}
        return {key: of(value) for key, value in record.items()}

    return lambda dump: replace(dump, data=of(dump.data))


def _is_number(value: Any) -> bool:
    return isinstance(value, float)


def relabelled(source: Path, target: Path, ranks: Sequence[int]) -> Path:
    """A copy of a folder of ranks in which rank ``i`` is called ``ranks[i]``, groups included."""

    def of(record: Any, key: str = "") -> Any:
        if isinstance(record, list):
            return [of(one) for one in record]
        if not isinstance(record, dict):
            return record
        if "group_ranks" in record:
            return {**record, "group_ranks": [ranks[one] for one in record["group_ranks"]]}
        if key in _PEERS and record.get("type") == "int":
            return {**record, "value": ranks[record["value"]]}
        return {name: of(value, name) for name, value in record.items()}

    for folder in sorted(source.glob("step*/rank*")):
        rank = int(folder.name.removeprefix("rank"))
        place = target / folder.parent.name / f"rank{ranks[rank]}"
        rewritten(folder, place, lambda dump: replace(dump, data=of(dump.data)))
    return target


def with_unrelated_calls(places: Sequence[float]) -> Rewrite:
    """Calls that have nothing to do with the others, at these shares of the way through.

    They are given and put out what nothing else is, and no call of their names is there.
    """

    def rewrite(dump: Dump) -> Dump:
        return replace(
            dump,
            data=_inserted(dump.data, {name: record for name, record, _ in added()}, places),
            parents=_inserted(dump.parents, {name: None for name, _, _ in added()}, places),
            stacks={
                **dump.stacks,
                **{f"unrelated {name}": [[name], [line]] for name, _, line in added()},
            },
        )

    def added() -> Iterator[tuple[str, dict[str, Any], str]]:
        for place, share in enumerate(places):
            given, made = (_tensor(share, size) for size in (3.0, 5.0))
            record = {"input_args": [given], "input_kwargs": {}, "output": [made]}
            line = f"File watch.py, line {10 + place}, in look, \n torch.logcumsumexp(x, 0)"
            yield f"Torch.logcumsumexp.{place}.forward", record, line

    return rewrite


def _inserted(
    before: Mapping[str, Any], added: Mapping[str, Any], places: Sequence[float]
) -> dict[str, Any]:
    entries = list(before.items())
    for share, entry in sorted(zip(places, added.items(), strict=True), reverse=True):
        entries.insert(round(share * len(entries)), entry)
    return dict(entries)


def _tensor(share: float, size: float) -> dict[str, Any]:
    high = size + share / 7
    statistics = {"Max": high, "Min": -high / 3, "Mean": high / 11, "Norm": high * 2.9}
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [13], **statistics}


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
