"""The shape of the source: module size, names, and imports that point one way."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = [
    name
    for name in (
        *("msprobe_builder", "tb_graph_ascend", "msprobe_collector"),
        *("msprobe_operators", "msprobe_checks"),
    )
    if (REPOSITORY / name / "__init__.py").exists()
]
LONGEST_MODULE = 400
NAMELESS = {"utils", "util", "common", "helpers", "helper", "misc"}

# Each subpackage may import from those before it: the order in which data flows.
ORDER = {
    "msprobe_builder": [
        *(
            "base",
            "dump",
            "graph",
            "merge",
            "match",
            "align",
            "link",
            "metrics",
            "overflow",
            "verdict",
            "database",
        ),
        *("rematch", "trend", "export", "pipeline", "tables", "importers", "command"),
    ],
    "msprobe_operators": ["call", "rerun", "judge", "report", "live", "dump"],
    "msprobe_checks": ["checkpoint", "gradients", "monitor", "configuration", "command"],
    "tb_graph_ascend": ["generated", "files", "query", "encode", "edit", "http", "page"],
}
PARTS = {
    "msprobe_builder.merge": ["ranks", "flow", "values", "join"],
    "msprobe_builder.align": ["evidence", "pairing", "groups", "contradictions"],
    "msprobe_builder.verdict": ["differences", "roles", "doubts", "ruling"],
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


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_between_the_parts_of_a_package_have_no_cycle(package: str) -> None:
    imports: dict[str, set[str]] = {}
    for path in (REPOSITORY / package).rglob("*.py"):
        part = part_of(module_name(path))
        found = {part_of(name) for name in imported(path) if name.split(".")[0] == package}
        imports.setdefault(part, set()).update(found - {part, package})
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as problem:
        pytest.fail(f"imports go round: {' <- '.join(problem.args[1])}")


@pytest.mark.parametrize("package", ORDER)
def test_subpackages_import_only_what_comes_before_them(package: str) -> None:
    wrong = against_the_order(package, ORDER[package])
    assert not wrong


@pytest.mark.parametrize("package", PARTS)
def test_parts_of_a_subpackage_import_only_what_comes_before_them(package: str) -> None:
    assert not against_the_order(package, PARTS[package])


@pytest.mark.parametrize("package", ORDER)
def test_every_subpackage_has_its_place_in_the_order(package: str) -> None:
    folders = {path.parent.name for path in (REPOSITORY / package).glob("*/__init__.py")}
    assert folders <= set(ORDER[package])


def test_the_builder_does_not_know_the_plugin() -> None:
    page = REPOSITORY / "msprobe_builder" / "command" / "page.py"  # packs it, when asked to
    for path in {*(REPOSITORY / "msprobe_builder").rglob("*.py")} - {page}:
        roots = {name.split(".")[0] for name in imported(path)}
        assert not roots & {"tb_graph_ascend", "tensorboard"}, path


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
    assert "msprobe_builder.verdict.ruling.judgement" in loaded
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


def part_of(name: str) -> str:
    """The package's direct child a module belongs to: a subpackage or a module of its own."""
    return ".".join(name.split(".")[:2])


def against_the_order(package: str, order: list[str]) -> list[str]:
    """Imports of a subpackage that comes later, in words."""
    folder = REPOSITORY.joinpath(*package.split("."))
    wrong = []
    for path in folder.rglob("*.py"):
        place = subpackage(package, module_name(path))
        if place is None:
            continue
        for name in imported(path):
            other = subpackage(package, name)
            if other is not None and order.index(other) > order.index(place):
                wrong.append(f"{module_name(path)} imports {name}")
    return wrong


def subpackage(package: str, name: str) -> str | None:
    """The subpackage a module lies in, None for the package's own modules and for others'."""
    if not name.startswith(package + "."):
        return None
    first = name[len(package) + 1 :].split(".")[0]
    return first if REPOSITORY.joinpath(*package.split("."), first).is_dir() else None


def imported(path: Path) -> Iterator[str]:
    """Full names of the modules a file imports, those inside functions included."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
