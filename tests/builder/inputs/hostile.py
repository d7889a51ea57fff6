"""Hostile and damaged input of a build as data: what is spoilt, and the sentence that it must give.

Two equal dumps of one call lie in ``npu`` and ``bench``, with compare.json beside them; sentences
are without the folder's path.
"""

from __future__ import annotations

import bz2
import gzip
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.builder.small_dumps import forward, tensor

NAME = "Functional.linear.0.forward"
TENSOR = tensor()
SURROGATE = '"half \\ud800"'


def nothing(_: Path) -> None:
    """Leave everything as it is."""


@dataclass(frozen=True)
class Case:
    """One row: exit status 0 written, 1 cannot be built, 2 wrong usage, 3 written in part."""

    name: str
    sentence: str
    status: int = 1
    spoil: Callable[[Path], object] = nothing
    options: tuple[str, ...] = ("--quiet",)
    data: Mapping[str, Any] | None = None
    construct: Mapping[str, Any] | None = None
    stack: Mapping[str, Any] | None = None


def write(path: str, content: str | bytes) -> Callable[[Path], object]:
    """Replace a file."""
    body = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / path).write_bytes(body)


def pipe(path: str) -> Callable[[Path], object]:
    """Put a pipe in the place of a file."""

    def make(folder: Path) -> None:
        (folder / path).unlink(missing_ok=True)
        os.mkfifo(folder / path)

    return make


def link(path: str, target: str) -> Callable[[Path], object]:
    """Put a link in the place of a file."""

    def make(folder: Path) -> None:
        (folder / path).unlink(missing_ok=True)
        (folder / path).symlink_to(target)

    return make


def directory(path: str) -> Callable[[Path], object]:
    """Put a directory in the place of a file."""

    def make(folder: Path) -> None:
        (folder / path).unlink(missing_ok=True)
        (folder / path).mkdir()

    return make


def packed(path: str) -> Callable[[Path], object]:
    """Give every file of a directory the name of one that gzip has made of it."""

    def make(folder: Path) -> None:
        for file in sorted((folder / path).iterdir()):
            file.rename(file.with_name(f"{file.name}.gz"))

    return make


def in_dumps(old: str, new: str) -> Callable[[Path], object]:
    """Replace text in the dump.json of both sides."""

    def change(folder: Path) -> None:
        for side in ("npu", "bench"):
            path = folder / side / "dump.json"
            text = path.read_text(encoding="utf-8")
            assert old in text
            path.write_text(text.replace(old, new), encoding="utf-8")

    return change


def in_npu(old: str, new: str) -> Callable[[Path], object]:
    """Replace text in the dump.json of the npu side."""

    def change(folder: Path) -> None:
        path = folder / "npu" / "dump.json"
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")

    return change


def both(*changes: Callable[[Path], object]) -> Callable[[Path], object]:
    """One change after the other."""

    def change(folder: Path) -> None:
        for one in changes:
            one(folder)

    return change


LOUD: tuple[str, ...] = ()
MATCHES = ("--match-file", "matches.json")
MAPPING = ("-lm", "mapping.yaml")
DEEP = "[" * 100_000

_CASES = [
    # What is no regular file: nothing waits for it.
    Case("construct is a pipe", "Cannot read npu/construct.json: it is no regular file.",
         spoil=pipe("npu/construct.json")),
    Case("stack is a pipe", "Cannot read npu/stack.json: it is no regular file.",
         spoil=pipe("npu/stack.json")),
    Case("dump is a pipe", "Cannot read npu/dump.json: it is no regular file.",
         spoil=pipe("npu/dump.json")),
    Case("construct is endless", "Cannot read npu/construct.json: it is no regular file.",
         spoil=link("npu/construct.json", "/dev/zero")),
    Case("dump is a directory",
         "npu/dump.json is a directory, not a file; give the directory that holds dump.json.",
         spoil=directory("npu/dump.json")),
    Case("stack is a directory",
         "npu/stack.json is a directory, not a file; dump this step again.",
         spoil=directory("npu/stack.json")),
    Case("construct is a directory", "Cannot read npu/construct.json: it is a directory.",
         spoil=directory("npu/construct.json")),
    Case("compare.json is a pipe", "Cannot read compare.json: it is no regular file; give", 2,
         pipe("compare.json")),
    Case("match file is a pipe", "Cannot read matches.json: it is no regular file; give", 2,
         pipe("matches.json"), MATCHES),
    # Numbers that nobody has.
    Case("a micro-step of a hundred million",
         "npu/construct.json has megatron_micro_step_number = 100000000, which is no micro-step"
         " number below 65,536; dump this step again.",
         construct={"megatron_micro_step_number": 10**8, NAME: [None, 0]}),
    Case("a node in micro-step 65,536",
         "npu/construct.json gives 'Functional.linear.0.forward' neither a parent nor a parent",
         construct={"megatron_micro_step_number": 0, NAME: [None, 65536]}),
    Case("a shape beyond all memory", "", 0,
         data={NAME: forward([tensor(shape=(10**200, 10**200))], [TENSOR])}),
    Case("a dimension of four hundred digits", "", 0,
         data={NAME: forward([tensor(shape=(10**400,))], [TENSOR])}),
    Case("a shape of 2^63 elements", "", 0,
         data={NAME: forward([tensor(shape=(2**62, 2))], [TENSOR])}),
    # Damaged text.
    Case("dump cut off", "npu/dump.json is cut off or damaged; dump this step again",
         spoil=write("npu/dump.json", '{"task": "statistics", "data": {"a')),
    Case("dump empty", "npu/dump.json does not hold a JSON object",
         spoil=write("npu/dump.json", "")),
    Case("dump too deep", "npu/dump.json nests values too deeply to be read",
         spoil=write("npu/dump.json", '{"task": "statistics", "data": {"a": ' + DEEP)),
    Case("dump in another encoding", "npu/dump.json is not UTF-8 text",
         spoil=write("npu/dump.json", b'{"task": "\xff"}')),
    Case("dump twice", "npu/dump.json goes on after its end",
         spoil=write("npu/dump.json", '{"task": "statistics", "data": {}} {}')),
    Case("dump packed", "npu/dump.json is compressed; unpack it.",
         spoil=write("npu/dump.json", gzip.compress(b"{}"))),
    Case("stack packed", "npu/stack.json is compressed; unpack it.",
         spoil=write("npu/stack.json", bz2.compress(b"{}"))),
    Case("task is no text", "npu/dump.json: the key 'task' is not text; dump this step again.",
         spoil=write("npu/dump.json", '{"task": 5, "data": {}}')),
    Case("construct too deep", "npu/construct.json nests values too deeply to be read",
         spoil=write("npu/construct.json", DEEP)),
    Case("construct of another form", "npu/construct.json does not hold a JSON object",
         spoil=write("npu/construct.json", "[]")),
    Case("stack of another form", "npu/stack.json does not hold a JSON object",
         spoil=write("npu/stack.json", "1")),
    Case("unknown task", "npu/dump.json is of task '\\x1b[31mred'; dump again with task",
         spoil=in_dumps('"statistics"', '"\\u001b[31mred"')),
    # A byte-order mark is text as well.
    Case("compare.json with a byte-order mark", "", 0,
         write("compare.json", b'\xef\xbb\xbf{"npu_path": "npu", "bench_path": "bench"}')),
    Case("match file with a byte-order mark", "", 0,
         write("matches.json", b"\xef\xbb\xbf{}"), ("--quiet", *MATCHES)),
    Case("mapping with a byte-order mark", "", 0,
         write("mapping.yaml", b"\xef\xbb\xbfTopLayer:\n  a: b\n"), ("--quiet", *MAPPING)),
    # compare.json.
    Case("unknown key with escapes", "compare.json has the unknown key '\\x1b[2J'", 2,
         write("compare.json", '{"\\u001b[2J": 1}')),
    Case("key twice", "compare.json has the key 'npu_path' twice in one object; keep one.", 2,
         write("compare.json", '{"npu_path": "npu", "npu_path": "bench"}')),
    Case("path of nobody", "compare.json: 'npu_path' is no path", 2,
         write("compare.json", '{"npu_path": "~nosuchuser/a"}')),
    Case("path too long", "compare.json: 'npu_path' is no path (File name too long)", 2,
         write("compare.json", json.dumps({"npu_path": "x" * 5000}))),
    Case("path of half a character",
         "npu_path half \\ud800 does not exist; correct its path.", 1,
         write("compare.json", f'{{"npu_path": {SURROGATE}}}')),
    Case("name too long", "is longer than 200 bytes; shorten it.", 2,
         options=("--output-name", "x" * 300)),
    Case("name elsewhere", "must be a plain file name; give the directory apart from it.", 2,
         options=("--output-name", "../x")),
    Case("journal of an earlier file",
         "out/a.vis.db-journal is left over from an earlier file a.vis.db; remove it", 1,
         both(directory("out"), write("out/a.vis.db-journal", b"x")), ("--output-name", "a")),
    # Numbers that no program of many ranks gives.
    Case("an astronomical rank", "npu_path npu holds no dump", spoil=both(
        lambda folder: (folder / "npu").rename(folder / "x"),
        directory("npu"),
        lambda folder: (folder / "x").rename(folder / "npu" / "rank9223372036854775808"))),
    Case("a packed dump", "npu_path npu/dump.json.gz is packed; unpack it, and what lies", 1,
         packed("npu")),
    # Said, not silently wrong.
    Case("statistics as text", "2 x Statistics in dump.json are no numbers; texts of numbers", 0,
         in_dumps('"Max": 1.0', '"Max": "NaN"'), LOUD),
    Case("statistics as lists", "2 x Statistics in dump.json are no numbers; texts of numbers", 0,
         in_dumps('"Max": 1.0', '"Max": [1.0]'), LOUD),
    Case("a statistic of one side only", "2 x Tensors have a statistic in dump.json of one side", 0,
         in_npu('"Norm": 1.0', '"Norm": null'), LOUD),
    Case("no records", "dump.json holds no record; the hierarchy is shown without tensors.", 0,
         options=LOUD, data={}, construct={NAME: None}),
    Case("keys twice in a record", "Keys appear twice in one object of dump.json or stack.json", 0,
         in_dumps('"Max": 1.0', '"Max": 1.0, "Max": 2.0'), LOUD),
    Case("keys twice in the stacks", "Keys appear twice in one object of dump.json or stack", 0,
         write("npu/stack.json", '{"a": ["x"], "a": ["y"]}'), LOUD),
    Case("matches for other steps",
         "Chosen matches are for steps or ranks that are not compared; they were left out."
         f" First: step 7, rank any: {NAME}", 0,
         write("matches.json", json.dumps(
             {"version": 1, "matches": [{"npu": NAME, "bench": NAME, "step": 7}]})), MATCHES),
    Case("bench nodes without a partner", "Alone     3 nodes of bench have no partner", 0,
         both(write("bench/construct.json", json.dumps({NAME: None, "Torch.add.0.forward": None}))),
         ("--exact",)),
    Case("everybody may look", "with --bind_all from other machines; whoever reaches the port",
         0, options=LOUD),
    # Half characters where text is stored.
    *(Case(f"half a character in {key}", "", 0,
           in_dumps(f'"{key}": {json.dumps(value)}', f'"{key}": {SURROGATE}'))
      for key, value in (("level", "mix"), ("framework", "pytorch"))),
    *(Case(f"half a character in {key}", "", 0,
           in_dumps('"Max": 1.0', f'"Max": 1.0, "{key}": {SURROGATE}'))
      for key in ("md5", "data_name")),
    Case("half a character in a match file",
         "matches.json: a names a node with half a character; correct it.", 2,
         write("matches.json", '{"a": "\\ud800"}'), MATCHES),
    Case("a step of a match file beyond all",
         "'step' and 'rank' of matches[0] must be whole numbers from 0 to 4294967295.", 2,
         write("matches.json",
               '{"version": 1, "matches": [{"npu": "a", "bench": "b", "step": 1e400}]}'), MATCHES),
    # What took quadratic time.
    Case("a stack line of spaces", "", 0, stack={NAME: ["File a, line 1, in " + " " * 1_000_000]}),
    Case("a stack line of commas", "", 0, stack={NAME: ["File a, line " * 100_000]}),
    Case("a mapping value of brackets", "mapping.yaml: line 2 holds '', which is no path", 2,
         write("mapping.yaml", f"TopLayer:\n  a: '{'(' * 100_000} x)'\n"),
         ("--quiet", *MAPPING)),
    # YAML makes no objects.
    Case("a mapping that calls", "mapping.yaml: line 1 must hold 'class name:'", 2,
         write("mapping.yaml", "!!python/object/apply:os.system ['touch called']"), MAPPING),
    Case("a mapping that multiplies", "mapping.yaml", 2,
         write("mapping.yaml", "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n"), MAPPING),
]  # fmt: skip

CASES = [
    case
    if case.data is not None
    else Case(
        case.name,
        case.sentence,
        case.status,
        case.spoil,
        case.options,
        {NAME: forward([TENSOR], [TENSOR])},
        case.construct,
        case.stack,
    )
    for case in _CASES
]
