"""What is said of results stands in the catalogue alone: no module holds a sentence of its own.

A sentence is a text with three English words in a row. Some are no results and may stand in a
module: what is raised or answered as an error, help, the log, SQL, and columns that are documented.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PACKAGES = (
    *("msprobe_builder", "msprobe_operators", "msprobe_checks", "msprobe_bisect"),
    *("msprobe_collector/compiled", "msprobe_collector/run", "msprobe_collector/watch"),
    "tb_graph_ascend",  # of the recorder the rest speaks in its log alone
)
WORD = r"[A-Za-z]?[a-z']+"
THREE = rf"(?:{WORD} {WORD},? {WORD}|{WORD},? {WORD} {WORD})"  # names alone have commas
WORDS = re.compile(rf"(?<![\w.\-/<]){THREE}(?![\w=\-])")
SQL = re.compile(r"/\*|\b(SELECT|FROM|WHERE|JOIN|ORDER BY|PRAGMA|INSERT|UPDATE|DELETE|CREATE)\b")
# Functions whose texts are no results, by their names.
OF_ERRORS = re.compile(
    r"(Error|Problem|Interrupt|Exit)$|^(_fail|print_error|damaged|conflict|not_found|try_again)$"
    r"|^(bad_request|cannot_show|_require_file|(read|parse)_\w+)$"
)
OF_HELP_AND_LOG = re.compile(
    r"^(add_argument|add_parser|add_subparsers|ArgumentParser|debug|info|warning|error|exception)$"
)
OF_NAMES = re.compile(r"^(split|Rule|Step|Signature|namedtuple)$")  # none of them said to anybody
NAMES_OF_HELP = {"description", "epilog", "_EPILOG"}
# Modules whose texts are no results, and why.
EXEMPT = {
    "msprobe_builder/command/fault.py": "errors of ours",
    "msprobe_builder/database/problems.py": "errors of files",
    "msprobe_builder/dump/parameters.py": "a value that cannot be shown",
    "msprobe_builder/link/signatures.py": "names of arguments",
    "msprobe_builder/pipeline/executors/attempt.py": "errors that ended the build of a rank",
    "msprobe_builder/pipeline/join.py": "errors that ended the build of a rank",
    "msprobe_builder/tables/columns.py": "documented names of columns",
    "msprobe_builder/tables/write.py": "documented names of columns",
    "msprobe_bisect/places.py": "places as the script names them",
    "msprobe_bisect/reproduce.py": "a script",
    "msprobe_bisect/standalone.py": "a script",
    "msprobe_collector/run/options.py": "help",
    "msprobe_collector/run/outermost.py": "the log of a training",
    "msprobe_collector/run/start/sitecustomize.py": "an error, said before anything is loaded",
    "msprobe_collector/run/trace.py": "what keys of a file hold, for who reads it",
    "msprobe_operators/dump/script.py": "a script",
    "msprobe_operators/live/compare_with_cpu.py": "the documented log of a training",
    "msprobe_operators/live/gate.py": "the documented log of a training",
    "msprobe_operators/live/log.py": "the documented log of a training",
    "msprobe_operators/report/script.py": "a script",
    "msprobe_checks/configuration/logs.py": "words of a log",
    "msprobe_checks/checkpoint/locate.py": "names of formats",
    "tb_graph_ascend/plugin.py": "an answer that is an error",
    "tb_graph_ascend/query/expressions.py": "a script, and errors",
}


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each sentence of a module."""
    tree = ast.parse(path.read_text("utf-8"))
    exempt = {id(node) for part in exempt_parts(tree) for node in ast.walk(part)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if id(node) not in exempt and WORDS.search(text) and not SQL.search(text):
                yield node.lineno, text


def exempt_parts(tree: ast.AST) -> Iterator[ast.AST]:
    """Docstrings, what is raised, and arguments of functions that say no results."""
    raised = names_in(node for node in ast.walk(tree) if is_raised(node))
    raised |= names_in(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and names_in(node.targets) & raised
    )
    for node in ast.walk(tree):
        match node:
            case ast.Assert() | ast.Compare() | ast.Expr(value=ast.Constant()):
                yield node
            case ast.Call(func=function) if OF_HELP_AND_LOG.search(name_of(function)):
                yield node
            case ast.Call(func=function) if OF_NAMES.search(name_of(function)):
                yield node
            case ast.FunctionDef(returns=ast.Name(id=name)) if OF_ERRORS.search(name):
                yield node
            case ast.FunctionDef(name=name) if name in raised:
                yield node
            case ast.Assign(targets=[name, *_]):
                if name_of(name) in raised | NAMES_OF_HELP:
                    yield node
            case _ if is_raised(node):
                yield node


def is_raised(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return bool(OF_ERRORS.search(name_of(node.func)))
    return isinstance(node, ast.Raise)


def names_in(nodes: Iterable[ast.AST]) -> set[str]:
    return {one.id for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name)}


def name_of(node: ast.expr) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def modules() -> list[str]:
    return [
        str(path.relative_to(REPOSITORY))
        for package in PACKAGES
        for path in sorted((REPOSITORY / package).rglob("*.py"))
        if "generated" not in path.parts
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_says_a_result_in_words_of_its_own(package: str) -> None:
    found = [
        f"{module}:{line}: {text}"
        for module in modules()
        if module.startswith(f"{package}/") and module not in EXEMPT
        for line, text in sentences(REPOSITORY / module)
    ]
    assert not found, "\n".join(["put these into the catalogue (docs/design/facts.md):", *found])


def test_what_is_exempt_is_there_and_needs_it() -> None:
    assert not [module for module in EXEMPT if not list(sentences(REPOSITORY / module))]
