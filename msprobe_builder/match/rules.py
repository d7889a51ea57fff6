"""The layer mapping file: which layer of one side is called what on the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from msprobe_builder.base.errors import UsageError
from msprobe_builder.files.text_files import read_text_file
from msprobe_builder.match.places import Path as LayerPath

TOP_LAYER = "TopLayer"
_TOP_ALIAS = "Cell"


@dataclass(frozen=True)
class Rule:
    """Below a module of class ``owner``, ``npu`` of one side is ``bench`` of the other."""

    owner: str
    npu: LayerPath
    bench: LayerPath
    line: int

    def __str__(self) -> str:
        return f"{self.owner}: {'.'.join(self.npu)}: {'.'.join(self.bench)}"


@dataclass(frozen=True)
class Rules:
    """The rules of one file in their order."""

    file: Path
    rules: tuple[Rule, ...]


def read_rules(file: Path) -> Rules:
    """Read a layer mapping file; raises UsageError naming file, line and remedy."""
    text = read_text_file(file, "give the path of a layer mapping file with -lm")
    try:
        # Composing makes no Python objects, so no tag of the file can call anything.
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}" if mark else ""
        raise UsageError(f"{file} is not valid YAML{where}: {error.problem}.") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{file} is not valid YAML; correct it.") from error
    if root is None:
        return Rules(file, ())
    if not isinstance(root, yaml.MappingNode):
        raise _wrong(file, root, "must hold 'class name:' with its rules below")
    return Rules(file, tuple(_all_rules(file, root)))


def _all_rules(file: Path, root: yaml.MappingNode) -> Iterator[Rule]:
    for name, rules in _entries(file, root):
        owner = _text(file, name, "a class name")
        owner = TOP_LAYER if owner == _TOP_ALIAS else owner
        if isinstance(rules, yaml.ScalarNode) and not rules.value:
            continue
        if not isinstance(rules, yaml.MappingNode):
            raise _wrong(
                file,
                name,
                f"gives '{owner}' no rules; write 'npu path: bench path' lines below it, "
                f"or below '{TOP_LAYER}:' for what stands directly below the root",
            )
        for npu, bench in _entries(file, rules):
            yield Rule(
                owner,
                _layer_path(file, npu, _text(file, npu, "a path")),
                _layer_path(file, bench, _without_remark(_text(file, bench, "a path"))),
                npu.start_mark.line + 1,
            )


def _entries(file: Path, mapping: yaml.MappingNode) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    lines: dict[str, int] = {}
    for key, value in mapping.value:
        if isinstance(key, yaml.ScalarNode):
            if key.value in lines:
                raise _wrong(
                    file, key, f"repeats '{key.value}' of line {lines[key.value]}; join the two"
                )
            lines[key.value] = key.start_mark.line + 1
        yield key, value


def _text(file: Path, node: yaml.Node, what: str) -> str:
    if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
        raise _wrong(file, node, f"must hold {what} here")
    return str(node.value).strip()


def _without_remark(text: str) -> str:
    """A path without what may follow in brackets, such as the name of its class."""
    return text.partition("(")[0].rstrip() if text.endswith(")") else text


def _layer_path(file: Path, node: yaml.Node, text: str) -> LayerPath:
    parts = tuple(text.split("."))
    if not all(parts):
        raise _wrong(file, node, f"holds '{text}', which is no path; write names joined by dots")
    return parts


def _wrong(file: Path, node: yaml.Node, problem: str) -> UsageError:
    return UsageError(f"{file}: line {node.start_mark.line + 1} {problem}.")
