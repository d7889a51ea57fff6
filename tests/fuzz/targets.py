"""What is fuzzed: each reader takes any bytes and returns, or raises the one error it promises."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.texts import Texts
from msprobe_builder.database.verify import verify
from msprobe_builder.dump.read import read_dump
from msprobe_builder.facts.fact import encode
from msprobe_builder.graph.tree import build_tree
from msprobe_builder.importers.reference_rows import read_reference
from msprobe_builder.match.match_file import parse_match_file
from msprobe_builder.match.rules import read_rules
from msprobe_builder.pipeline.config import read_config

Target = Callable[[bytes, Path], object]


def dump(content: bytes, folder: Path) -> None:
    """dump.json with a hierarchy of the same names."""
    (folder / "dump.json").write_bytes(content)
    (folder / "construct.json").write_bytes(b'{"a": null, "Module.m.M.forward.0": null}')
    (folder / "stack.json").write_bytes(b"{}")
    build_tree(read_dump(folder, Texts()))


def construct(content: bytes, folder: Path) -> None:
    """construct.json beside an empty dump."""
    (folder / "dump.json").write_bytes(b'{"task": "statistics", "data": {}}')
    (folder / "construct.json").write_bytes(content)
    (folder / "stack.json").write_bytes(b"{}")
    build_tree(read_dump(folder, Texts()))


def stack(content: bytes, folder: Path) -> None:
    """stack.json beside an empty dump."""
    (folder / "dump.json").write_bytes(b'{"task": "statistics", "data": {}}')
    (folder / "construct.json").write_bytes(b'{"a": null}')
    (folder / "stack.json").write_bytes(content)
    read_dump(folder, Texts())


def config(content: bytes, folder: Path) -> None:
    """compare.json."""
    (folder / "compare.json").write_bytes(content)
    read_config(folder / "compare.json")


def mapping(content: bytes, folder: Path) -> None:
    """A layer mapping file."""
    (folder / "mapping.yaml").write_bytes(content)
    read_rules(folder / "mapping.yaml")


def matches(content: bytes, _folder: Path) -> None:
    """A match file."""
    parse_match_file(content.decode("utf-8", "surrogateescape"), "matches.json")


def database(content: bytes, folder: Path) -> None:
    """A .vis.db: opened, and all of it looked at."""
    (folder / "a.vis.db").write_bytes(content)
    for finding in verify(folder / "a.vis.db"):
        encode(finding)


def reference(content: bytes, folder: Path) -> None:
    """A database of the reference tool."""
    (folder / "b.vis.db").write_bytes(content)
    read_reference(folder / "b.vis.db")


TARGETS: dict[str, Target] = {
    one.__name__: one
    for one in (dump, construct, stack, config, mapping, matches, database, reference)
}


def run(name: str, content: bytes) -> None:
    """One execution; whatever it raises is a fault of ours."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        try:
            TARGETS[name](content, Path(folder))
        except BuildError as error:
            assert str(error)
            assert "\n" not in str(error)
