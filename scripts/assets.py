"""Make what is generated: the Python and TypeScript contract, and the compiled front end.

    python scripts/assets.py contract   tb_graph_ascend/generated
    python scripts/assets.py modules    frontend_polymer/node_modules and src/generated
    python scripts/assets.py frontend   tb_graph_ascend/static

Each does nothing while a hash of its inputs equals the one noted under .cache/assets.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import node

REPOSITORY = node.REPOSITORY
FRONTEND = node.FRONTEND
PROTOC = "grpcio-tools==1.76.0"  # its code runs on protobuf 6.31.1, TensorBoard's oldest
WORDINGS = REPOSITORY / "msprobe_builder" / "facts" / "catalogue"
PROTO = REPOSITORY / "proto" / "graph.proto"
GENERATED = REPOSITORY / "tb_graph_ascend" / "generated"
STATIC = REPOSITORY / "tb_graph_ascend" / "static"
NOTES = REPOSITORY / ".cache" / "assets"


def contract() -> None:
    """graph.proto as a Python module with its type stub."""

    def make() -> None:
        if importlib.util.find_spec("grpc_tools") is None:
            raise node.ToolMissingError(
                f"graph.proto needs its compiler: run '{sys.executable} -m pip install {PROTOC}'"
            )
        shutil.rmtree(GENERATED, ignore_errors=True)
        GENERATED.mkdir(parents=True)
        subprocess.run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc"),
                f"-I{PROTO.parent}",
                f"--python_out={GENERATED}",
                f"--pyi_out={GENERATED}",
                str(PROTO),
            ],
            check=True,
        )
        (GENERATED / "__init__.py").write_text('"""Generated from proto/, never edited."""\n')

    _unless_current("contract", [PROTO], GENERATED / "graph_pb2.pyi", make)


def modules() -> None:
    """The front end's packages, and graph.proto as TypeScript."""
    lock = FRONTEND / "package-lock.json"
    installed = FRONTEND / "node_modules" / ".package-lock.json"
    _unless_current("node_modules", [lock], installed, lambda: node.npm("ci"))
    _unless_current(
        "typescript",
        [PROTO, lock],
        FRONTEND / "src" / "generated" / "graph_pb.ts",
        lambda: node.npm("run", "generate"),
    )


def frontend() -> None:
    """The compiled front end."""
    modules()
    skipped = {"node_modules", "test", "generated"}
    sources = [
        path
        for path in FRONTEND.rglob("*")
        if path.is_file() and skipped.isdisjoint(path.relative_to(FRONTEND).parts)
    ]
    sources += WORDINGS.glob("*.json")
    _unless_current(
        "frontend", [PROTO, *sources], STATIC / "index.js", lambda: node.npm("run", "build")
    )


def _unless_current(
    name: str, inputs: Iterable[Path], output: Path, make: Callable[[], None]
) -> None:
    digest = hashlib.sha256()
    for path in sorted(inputs):
        digest.update(str(path.relative_to(REPOSITORY)).encode())
        digest.update(path.read_bytes())
    note = NOTES / name
    if output.exists() and note.exists() and note.read_text() == digest.hexdigest():
        return
    make()
    NOTES.mkdir(parents=True, exist_ok=True)
    note.write_text(digest.hexdigest())


def main(names: list[str]) -> int:
    known: dict[str, Callable[[], None]] = {
        "contract": contract,
        "modules": modules,
        "frontend": frontend,
    }
    if not names or not known.keys() >= set(names):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        for name in names:
            known[name]()
    except node.ToolMissingError as problem:
        print(problem, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as problem:
        return problem.returncode or 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
