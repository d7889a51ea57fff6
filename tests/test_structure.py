"""The shape of the source: module size, names, and imports that point one way."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable, Container, Iterator
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
# What each package may import, besides itself; a package stands behind what it imports.
MAY_IMPORT = {
    "msprobe_builder": "",
    "msprobe_checks": "msprobe_builder",
    "msprobe_operators": "msprobe_builder",
    "msprobe_collector": "msprobe_builder msprobe_checks",
    "tb_graph_ascend": "msprobe_builder",
    "msprobe_bisect": "msprobe_builder msprobe_collector msprobe_operators",
}
PACKAGES = list(MAY_IMPORT)
LONGEST_MODULE = 400
NAMELESS = {"utils", "util", "common", "helpers", "helper", "misc"}

# The same of the subpackages of a package: the order in which data flows.
PARTS_MAY_IMPORT = {
    "msprobe_builder": {
        "facts": "",
        "base": "facts",
        "files": "base",
        "sketch": "base files",
        "operators": "",
        "dump": "base files operators sketch",
        "configuration": "facts base dump files",
        "graph": "facts base dump operators sketch",
        "merge": "facts base dump graph operators",
        "match": "facts base dump files graph operators",
        "align": "base dump graph match operators",
        "link": "facts base operators",
        "metrics": "facts base dump files graph link match operators sketch",
        "overflow": "facts base dump graph metrics operators",
        "verdict": "facts base dump graph match merge metrics operators sketch",
        "invariants": "facts base dump graph link operators sketch verdict",
        "database": "facts base dump files graph invariants link match metrics operators sketch"
        " verdict",
        "rematch": "facts base database dump graph match metrics sketch",
        "trend": "base database dump files graph metrics operators sketch",
        "export": "facts base database dump graph match metrics",
        "pipeline": "facts base files dump configuration graph merge match align invariants link"
        " metrics"
        " overflow verdict database export",
        "tables": "facts base database dump files metrics pipeline",
        "importers": "facts base database dump files pipeline",
        "command": "facts base database dump export files importers pipeline tables trend",
    },
    "msprobe_operators": {
        "call": "",
        "rerun": "call",
        "judge": "call rerun",
        "report": "call judge",
        "live": "call judge report rerun",
        "dump": "call judge report rerun",
    },
    "msprobe_checks": {
        "checkpoint": "",
        "gradients": "",
        "monitor": "",
        "configuration": "",
        "command": "checkpoint configuration gradients monitor",
    },
    "msprobe_collector": {
        "config": "",
        "optimizers": "",
        "one_pass": "",
        "write": "one_pass",
        "record": "config one_pass write",
        "drawing": "record",
        "configuration": "drawing",
        "gradients": "config optimizers record",
        "intercept": "record",
        "monitor": "config intercept optimizers record",
        "mindspore": "config configuration drawing gradients intercept monitor record write",
        "as_msprobe": "configuration mindspore",
        "compiled": "intercept record",
        "watch": "config record write",
        "run": "compiled config intercept record watch write",
    },
    "msprobe_bisect": {},
    "tb_graph_ascend": {
        "generated": "",
        "files": "",
        "query": "",
        "encode": "generated",
        "edit": "encode files generated",
        "http": "edit encode files generated query",
        "page": "encode generated http",
    },
}
PARTS = {
    "msprobe_builder.merge": ["ranks", "flow", "values", "join"],
    "msprobe_builder.align": ["evidence", "pairing", "groups", "contradictions"],
    "msprobe_builder.verdict": ["differences", "ruling", "model", "ranks", "steps"],
}


def sources() -> list[Path]:
    python = [path for name in PACKAGES for path in (REPOSITORY / name).rglob("*.py")]
    python += [
        path
        for folder in ("scripts", "benchmarks", "tests")
        for path in (REPOSITORY / folder).rglob("*.py")
    ]
    typescript = (REPOSITORY / "frontend_polymer" / "src").rglob("*.ts")
    return sorted(path for path in (*python, *typescript) if "generated" not in path.parts)


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_a_module_is_short_and_has_a_name_that_says_what_is_in_it(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= LONGEST_MODULE, f"{lines} lines: is it two concepts?"
    parts = {part.lower() for part in path.relative_to(REPOSITORY).with_suffix("").parts}
    assert not parts & NAMELESS


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter(import_graph()).prepare()
    except CycleError as problem:
        pytest.fail(f"imports go round: {' <- '.join(problem.args[1])}")


def test_packages_import_only_those_before_them() -> None:
    check_arrows(MAY_IMPORT, lambda module: module.partition(".")[0])


@pytest.mark.parametrize("package", PACKAGES)
def test_subpackages_import_only_those_before_them(package: str) -> None:
    folders = {path.parent.name for path in (REPOSITORY / package).glob("*/__init__.py")}
    assert folders == set(PARTS_MAY_IMPORT[package])
    check_arrows(PARTS_MAY_IMPORT[package], lambda module: subpackage(package, module))


def check_arrows(may_import: dict[str, str], place: Callable[[str], str | None]) -> None:
    allowed = {(name, other) for name, others in may_import.items() for other in others.split()}
    order = list(may_import)
    assert not [arrow for arrow in allowed if order.index(arrow[0]) < order.index(arrow[1])]
    found = {
        (place(module), place(other)): f"{module} imports {other}"
        for module, others in import_graph().items()
        for other in others
        if place(module) and place(other) and place(module) != place(other)
    }
    assert not [sentence for arrow, sentence in found.items() if arrow not in allowed]
    assert not sorted(allowed - found.keys()), "nobody needs these any more: take them out"


@pytest.mark.parametrize("package", PARTS)
def test_parts_of_a_subpackage_import_only_what_comes_before_them(package: str) -> None:
    order = PARTS[package]
    for module, others in import_graph().items():
        first = subpackage(package, module)
        for other in others if first else ():
            second = subpackage(package, other)
            assert second is None or order.index(second) <= order.index(str(first)), module


@pytest.mark.parametrize(
    "module",
    ["tb_graph_ascend.plugin", "msprobe_builder.command.main", "msprobe_builder.pipeline.build"],
)
def test_importing_what_everybody_starts_is_cheap(module: str) -> None:
    """TensorBoard imports the plugin at start-up: an exception or a delay there hits everyone."""
    heavy = {"torch", "torch_npu", "pandas", "dask", "distributed", "tensorflow", "matplotlib"}
    answer = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert module in answer.stdout.split()
    assert not heavy & set(answer.stdout.split())


def test_a_plain_comparison_loads_nothing_that_it_has_no_use_for(
    dumps: Path, tmp_path: Path
) -> None:
    """Two runs of one program: an eighth of the time of 22,000 pairs is loading modules."""
    others = {
        *("align.align", "export.merged_folder", "link.communication", "match.mapping"),
        *("match.wishes", "merge.detect", "merge.replica", "metrics.device", "metrics.tensor"),
        *("overflow.check", "pipeline.append", "pipeline.executors.processes"),
    }
    unused = {f"msprobe_builder.{name}" for name in others}
    assert all(importlib.util.find_spec(name) for name in unused)  # they are still called so
    request = {
        "npu_path": str(dumps / "llama_statistics_wrong_attention_scale" / "step0"),
        "bench_path": str(dumps / "llama_statistics" / "step0"),
    }
    (tmp_path / "compare.json").write_text(json.dumps(request))
    program = (
        "import sys; from msprobe_builder.command.main import main;"
        " status = main(sys.argv[1:]); print(*sys.modules); sys.exit(status)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, "-i", tmp_path / "compare.json", "-o", tmp_path / "out"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(answer.stdout.split())
    assert "msprobe_builder.verdict.judge" in loaded
    assert not loaded & (unused | {"yaml", "zipfile", "multiprocessing", "pandas", "torch"})


SQL = re.compile(
    r"\b(SELECT\s.+\sFROM|INSERT (OR \w+ )?INTO|UPDATE \w+ SET|DELETE FROM|CREATE TABLE"
    r"|^PRAGMA|^(BEGIN|COMMIT|ROLLBACK)\b)|\bFROM (node|match|graph|text)\b",
    re.S,
)
# The tables of another tool, which nothing else reads.
FOREIGN_TABLES = {"msprobe_builder/importers/reference_rows.py"}


def test_sql_stands_in_the_folder_of_the_database_alone() -> None:
    found = set()
    for package in PACKAGES:
        for path in (REPOSITORY / package).rglob("*.py"):
            place = path.relative_to(REPOSITORY)
            if any(SQL.search(text) for text in texts_of(path)):
                found.add(str(place))
    outside = {place for place in found if not place.startswith("msprobe_builder/database/")}
    assert outside == FOREIGN_TABLES


def texts_of(path: Path) -> Iterator[str]:
    """The constant texts of a module that are no docstrings, pieces of one put together."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def module_name(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def subpackage(package: str, name: str) -> str | None:
    """The subpackage a module lies in, None for the package's own modules and for others'."""
    if not name.startswith(package + "."):
        return None
    first = name[len(package) + 1 :].split(".")[0]
    return first if REPOSITORY.joinpath(*package.split("."), first).is_dir() else None


@lru_cache
def import_graph() -> dict[str, set[str]]:
    """The modules of our packages that each of them imports, also in functions and for types."""
    paths = {
        module_name(path): path for name in PACKAGES for path in (REPOSITORY / name).rglob("*.py")
    }
    return {name: set(imported(path, paths)) - {name} for name, path in paths.items()}


def imported(path: Path, known: Container[str]) -> Iterator[str]:
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        for name in names:  # a module, or something in it
            yield from [one for one in (name, name.rpartition(".")[0]) if one in known][:1]
