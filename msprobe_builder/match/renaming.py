"""Mapping files of cells, APIs and values: which call of one side is which of the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.options import BuildOptions
from msprobe_builder.dump.names import Kind, Name, format_name, parse_gradients
from msprobe_builder.files.text_files import parse_yaml, read_text_file
from msprobe_builder.graph.tree import Tree
from msprobe_builder.match.match_file import ChosenPair
from msprobe_builder.match.matching import ValuePair

# Sections of a value's name, behind the name of its call.
_SECTIONS = (".input.", ".output.", ".parameters.", ".parameters_grad.", ".kwargs.")
_API_KEYS = ("ms_api", "pt_api")
_INDEX_KEYS = (("ms_args", "pt_args", "input"), ("ms_outputs", "pt_outputs", "output"))
_NO_CLASH = frozenset({"Functional", "Torch", "Tensor"})  # one function under three packages


@dataclass(frozen=True)
class ApiRule:
    """Calls of one API are those of another; ``values`` pairs what goes in and out by name."""

    npu: str
    bench: str
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Renaming:
    """What the mapping files say; None where that kind of mapping was not asked for."""

    cells: Mapping[str, str] | None
    apis: tuple[ApiRule, ...] | None
    values: tuple[tuple[str, str], ...]


def read_renaming(options: BuildOptions) -> Renaming | None:
    """The mappings that ``options`` ask for; UsageError naming file, place and remedy."""
    cells: dict[str, str] | None = None
    apis: tuple[ApiRule, ...] | None = None
    values: tuple[tuple[str, str], ...] = ()
    if options.cell_mapping:
        cells = {}
        if options.cell_mapping_file is not None:
            cells = dict(_names(options.cell_mapping_file, "cell.Class: module.Class"))
    if options.api_mapping:
        apis = ()
        if options.api_mapping_file is not None:
            apis = tuple(_api_rules(options.api_mapping_file))
    if options.data_mapping_file is not None:
        values = _names(options.data_mapping_file, "npu value: bench value")
    if cells is None and apis is None and not values:
        return None
    return Renaming(cells, apis, values)


def renamed_pairs(renaming: Renaming, npu: Tree, bench: Tree) -> list[ChosenPair]:
    """Pairs of calls that the mappings make: of values first, then of APIs, then of cells.

    What a value mapping names is given as it stands, so that a name that nobody has is told; of
    rules of APIs and cells only those calls that both sides have.
    """
    pairs: dict[str, str] = {}
    for left, right in renaming.values:
        pairs.setdefault(call_and_value(left)[0], call_and_value(right)[0])
    taken = set(pairs.values())
    known = set(bench.names)
    offered: list[Iterator[tuple[str, str]]] = []
    if renaming.apis is not None:
        offered.append(_by_rules(renaming.apis, npu))
        offered.append(_same_functions(npu, bench))
    if renaming.cells is not None:
        offered.append(_cells(renaming.cells, npu))
    for candidates in offered:
        for left, right in candidates:
            if right in known and left not in pairs and right not in taken:
                pairs[left] = right
                taken.add(right)
    return [ChosenPair(left, right) for left, right in pairs.items()]


def value_pairs(renaming: Renaming, npu: Tree) -> list[ValuePair]:
    """Values that belong together although they stand at other places of their calls."""
    result = []
    for left, right in renaming.values:
        (call, own), (_, other) = call_and_value(left), call_and_value(right)
        if own and other:
            result.append(ValuePair(call, own, other))
    rules = {rule.npu: rule for rule in renaming.apis or () if rule.values}
    for name, parsed in zip(npu.names, npu.parsed, strict=True):
        if parsed.kind is Kind.API and parsed.stem in rules:
            result += [ValuePair(name, *pair) for pair in rules[parsed.stem].values]
    return result


def call_and_value(item: str) -> tuple[str, str]:
    """A value's name as its call and its name within: ``Torch.add.0.forward`` and ``input.0``."""
    places = [item.find(section) for section in _SECTIONS]
    found = min((place for place in places if place > 0), default=-1)
    if found < 0:
        return item, ""
    call, value = item[:found], item[found + 1 :]
    if value.startswith("kwargs."):  # as files of data are called
        value = f"input.{value.removeprefix('kwargs.')}"
    if value.startswith("parameters_grad."):
        return f"{call}.parameters_grad", value
    return call, value


def _by_rules(rules: Iterable[ApiRule], npu: Tree) -> Iterator[tuple[str, str]]:
    bench_of = {rule.npu: rule.bench for rule in rules}
    for name, parsed in zip(npu.names, npu.parsed, strict=True):
        if parsed.kind is Kind.API and parsed.stem in bench_of:
            yield name, format_name(parsed._replace(stem=bench_of[parsed.stem]))


def _same_functions(npu: Tree, bench: Tree) -> Iterator[tuple[str, str]]:
    """Functions of equal name in another package, where each side has it in one package alone."""
    packages: tuple[dict[str, set[str]], ...] = (defaultdict(set), defaultdict(set))
    for side, tree in zip(packages, (npu, bench), strict=True):
        for parsed in tree.parsed:
            prefix, _, operator = parsed.stem.partition(".")
            if parsed.kind is Kind.API and prefix.removeprefix("Mint") in {*_NO_CLASH, ""}:
                side[operator].add(prefix)
    left, right = packages
    prefix_of = {
        (*left[operator], operator): (*right[operator],)[0]
        for operator in left
        if len(left[operator]) == len(right.get(operator, ())) == 1
    }
    for name, parsed in zip(npu.names, npu.parsed, strict=True):
        prefix, _, operator = parsed.stem.partition(".")
        if parsed.kind is Kind.API and (prefix, operator) in prefix_of:
            stem = f"{prefix_of[prefix, operator]}.{operator}"
            yield name, format_name(parsed._replace(stem=stem))


def _cells(rules: Mapping[str, str], npu: Tree) -> Iterator[tuple[str, str]]:
    for name, parsed in zip(npu.names, npu.parsed, strict=True):
        prefix, _, place = parsed.stem.partition(".")
        if parsed.kind is not Kind.MODULE or prefix not in ("Cell", "Module"):
            continue
        gradients = parse_gradients(place)
        if gradients is None:
            other = rules.get(place, place)
        else:
            other = rules.get(gradients[0], gradients[0]) + place[len(gradients[0]) :]
        yield name, format_name(Name(parsed.kind, f"Module.{other}", *parsed[2:]))


def _load(file: Path, form: str) -> Any:
    text = read_text_file(file, "give the path of a mapping file")
    return parse_yaml(file, text, f"write '{form}' lines")


def _names(file: Path, form: str) -> tuple[tuple[str, str], ...]:
    content = _load(file, form)
    if content is None:
        return ()
    if not isinstance(content, dict):
        raise UsageError(f"{file} must hold '{form}' lines.")
    for left, right in content.items():
        if not isinstance(left, str) or not isinstance(right, str):
            raise UsageError(f"{file} must map names to names, not {left!r}: {right!r}.")
    return tuple(content.items())


def _api_rules(file: Path) -> Iterator[ApiRule]:
    content = _load(file, "ms_api: name")
    entries = content if isinstance(content, list) else [] if content is None else [content]
    for number, entry in enumerate(entries, start=1):
        where = f"{file}: rule {number}"
        known = {*_API_KEYS, *(key for keys in _INDEX_KEYS for key in keys[:2])}
        if not isinstance(entry, dict) or not entry.keys() <= known:
            raise UsageError(f"{where} must hold {', '.join(sorted(known))} and nothing else.")
        names = [entry.get(key) for key in _API_KEYS]
        if not all(isinstance(name, str) and name for name in names):
            raise UsageError(f"{where} lacks the name of an API in 'ms_api' or 'pt_api'.")
        values: list[tuple[str, str]] = []
        for own, other, section in _INDEX_KEYS:
            sides = [_indexes(entry.get(key), f"{where}: '{key}'") for key in (own, other)]
            if len(sides[0]) != len(sides[1]):
                raise UsageError(f"{where}: '{own}' and '{other}' must be equally long.")
            values += [
                (f"{section}.{i}", f"{section}.{j}") for i, j in zip(*sides, strict=True) if i != j
            ]
        yield ApiRule(str(names[0]), str(names[1]), tuple(values))


def _indexes(value: Any, where: str) -> list[int]:
    if value is None:
        return []
    if (
        not isinstance(value, list)
        or any(type(one) is not int or one < 0 for one in value)
        or len(set(value)) < len(value)
    ):
        raise UsageError(f"{where} must be a list of different whole numbers from 0.")
    return value
