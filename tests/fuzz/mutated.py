"""Real dumps, databases and checkpoints with something changed that keeps their form.

What a changed byte would only break stays whole (JSON, pages, checksums), and values, shapes,
names and references become others. Each run is a whole command, a few one after another in a
process that may be ended; it fails when it ends with status 70 or a signal, or takes more than
``SECONDS`` or ``MEMORY``.

``python -m tests.fuzz.mutated night 20000 FOLDER`` tries what no night before has, and keeps what
fails; ``KIND FIRST END`` tries some again. Numbers that once failed stand in mutations.tsv.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import pickletools
import random
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from copy import deepcopy
from datetime import datetime
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from msprobe_builder.command.main import main
from msprobe_operators.command import main as operators

SECONDS = 60
MEMORY = 2 << 30  # bytes
TOGETHER = 50
FINE = {0, 1, 2, 3, 4}
RECORDS = 40  # of a real dump; all of it would only take longer
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**40, 10**400, 0.5, 1e308, -0.0),
    *("", "x", "NaN", "\ud800", "\0", "../x", "a" * 5000, "torch.float99", "Module.m.M.forward.0"),
    *([], {}, [[]], {"": {}}, [None] * 40, {"type": "torch.Tensor"}),
)
Base = Callable[[Path], None]
Change = Callable[[Path, random.Random], list[list[str]]]


def real_dumps(folder: Path) -> None:
    """The beginnings of two real dumps, ``npu`` and ``bench``, and compare.json."""
    archives = sorted((Path(__file__).parents[1] / "data").glob("llama_statistics*.tar.xz"))
    for name, archive in zip(("npu", "bench"), archives[:2], strict=True):
        shutil.unpack_archive(archive, folder / "all" / name)
        source = next((folder / "all" / name).rglob("dump.json")).parent
        (folder / name).mkdir()
        dump = json.loads((source / "dump.json").read_text("utf-8"))
        kept = dict(list(dump["data"].items())[:RECORDS])
        (folder / name / "dump.json").write_text(json.dumps(dump | {"data": kept}))
        for file in ("construct.json", "stack.json"):
            content = json.loads((source / file).read_text("utf-8"))
            kept_too = {key: value for key, value in content.items() if key in kept}
            wanted = kept_too if file == "construct.json" else content
            (folder / name / file).write_text(json.dumps(wanted))
    shutil.rmtree(folder / "all")
    (folder / "compare.json").write_text('{"npu_path": "npu", "bench_path": "bench"}')


def changed_dump(folder: Path, rng: random.Random) -> list[list[str]]:
    """One to three values of one side become others; the command is a build."""
    file = folder / "npu" / rng.choice(["dump.json"] * 4 + ["construct.json", "stack.json"])
    content = json.loads(file.read_text("utf-8"))
    for _ in range(rng.randint(1, 3)):
        change_value(content, rng)
    file.write_text(json.dumps(content), "utf-8")
    return [["-i", str(folder / "compare.json"), "-o", str(folder / "out"), "-oc"]]


def change_value(content: Any, rng: random.Random) -> None:
    """Somewhere inside, a value is replaced, removed, doubled, or exchanged with another."""
    places = [place for place in _places(content) if place[0] is not content or rng.random() < 0.1]
    if not places:
        return
    of, key = rng.choice(places)
    other, other_key = rng.choice(places)
    match rng.randrange(5):
        case 0 | 1:
            of[key] = deepcopy(rng.choice(ODD))
        case 2:
            del of[key]
        case 3 if isinstance(of, dict):
            of[str(rng.choice(ODD))] = of[key]
        case 3:
            of.append(of[key])
        case _ if not _holds(of[key], other):
            of[key] = json.loads(json.dumps(other[other_key]))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def _holds(value: Any, wanted: Any) -> bool:
    return isinstance(value, dict | list) and any(of is wanted for of, _ in _places(value))


def real_database(folder: Path) -> None:
    """What is built of the dumps."""
    real_dumps(folder)
    out = ["-o", str(folder), "--output-name", "x", "--quiet"]
    assert main(["-i", str(folder / "compare.json"), *out]) == 0


def changed_database(folder: Path, rng: random.Random) -> list[list[str]]:
    """A column becomes another in some rows; the commands are all that read it."""
    path = folder / "x.vis.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        tables = [
            (table, column)
            for (table,) in connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table'"
            ).fetchall()
            for _, column, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall()
        ]
        for _ in range(rng.randint(1, 2)):
            table, column = rng.choice(tables)
            _, other = rng.choice([one for one in tables if one[0] == table])
            value = rng.choice(
                [other, "NULL", "-1", "'x'", "1e300", "9223372036854775807", "zeroblob(9)", "rowid"]
            )
            some = rng.choice(["1", "rowid % 7 = 3", "rowid = 2"])
            with contextlib.suppress(sqlite3.Error):
                connection.execute(f"UPDATE OR IGNORE {table} SET {column} = {value} WHERE {some}")
        connection.commit()
    outputs = {"page": "a.html", "report": "b.html", "export": "c.csv", "upgrade": "d.vis.db"}
    commands = [[word, str(path), "-o", str(folder / name)] for word, name in outputs.items()]
    everything = "SELECT * FROM tensor_view JOIN node_view USING (node_id)"
    commands += [["query", str(path), everything, "--json"], ["schema", str(path)]]
    return [*commands, ["verdict", str(path)], ["verify", str(path)]]


def real_checkpoint(folder: Path) -> None:
    """Two equal models as torch saves them, one of them as Megatron does."""
    import torch

    names = ("embedding.word_embeddings.weight", "decoder.layers.0.mlp.linear_fc1.weight")
    model = {name: torch.arange(24.0).reshape(6, 4) for name in names}
    model["decoder.final_layernorm.weight"] = torch.ones(4, dtype=torch.bfloat16)
    torch.save({"model": model, "step": (3, [1.5, "x"])}, folder / "a.pt")
    torch.save({"model": model}, folder / "b.pt")


def changed_checkpoint(folder: Path, rng: random.Random) -> list[list[str]]:
    """What describes the tensors is changed opcode by opcode, and packed again with checksums."""
    path = folder / "a.pt"
    with zipfile.ZipFile(path) as archive:
        entries = {one.filename: archive.read(one) for one in archive.infolist()}
    [name] = [one for one in entries if one.endswith("data.pkl")]
    entries[name] = changed_pickle(entries[name], rng)
    if rng.random() < 0.2:
        other = rng.choice([one for one in entries if "/data/" in one])
        entries[other] = entries[other][: rng.randrange(len(entries[other]))]
    with zipfile.ZipFile(path, "w") as archive:
        for one, content in entries.items():
            archive.writestr(one, content)
    output = str(folder / "out.json")
    return [["checkpoint", str(path), str(folder / "b.pt"), "-o", output]]


def real_distributed(folder: Path) -> None:
    """The same model, distributed."""
    import torch
    from torch.distributed.checkpoint.state_dict_saver import save

    model = {"model.a": torch.arange(24.0).reshape(6, 4), "model.b": torch.ones(4)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing else takes part
        save(model, checkpoint_id=folder / "parts")
    torch.save(model, folder / "whole.pt")


def changed_distributed(folder: Path, rng: random.Random) -> list[list[str]]:
    """Its index is changed opcode by opcode."""
    index = folder / "parts" / ".metadata"
    index.write_bytes(changed_pickle(index.read_bytes(), rng))
    output = str(folder / "out.json")
    return [["checkpoint", str(index.parent), str(folder / "whole.pt"), "-o", output]]


def real_call(folder: Path) -> None:
    """A call that was saved to be replayed."""
    import torch

    from msprobe_operators.call.saved import save_call

    args = (torch.arange(6.0).reshape(2, 3), [2, 3], [3, 1], 0)
    save_call(folder / "a.pkl", torch.ops.aten.as_strided.default, args, {})


def changed_call(folder: Path, rng: random.Random) -> list[list[str]]:
    """What describes it is changed opcode by opcode, or it is of another operator."""
    import torch

    path = folder / "a.pkl"
    with zipfile.ZipFile(path) as archive:
        entries = {one.filename: archive.read(one) for one in archive.infolist()}
    [name] = [one for one in entries if one.endswith("data.pkl")]
    content = entries[name]
    if rng.random() < 0.7:
        other = rng.choice(sorted(torch._C._dispatch_get_all_op_names()))
        text = f"torch.ops.{other.replace('::', '.')}".encode()
        at = content.index(b"torch.ops.")
        own = int.from_bytes(content[at - 4 : at], "little")
        content = content[: at - 4] + len(text).to_bytes(4, "little") + text + content[at + own :]
    entries[name] = changed_pickle(content, rng) if rng.random() < 0.7 else content
    with zipfile.ZipFile(path, "w") as archive:
        for one, written in entries.items():
            archive.writestr(one, written)
    return [["replay", str(path), "--seconds", "5"]]


def changed_pickle(content: bytes, rng: random.Random) -> bytes:
    """Opcodes are removed, doubled or exchanged, or get the argument of another one."""
    places = [at or 0 for _, _, at in pickletools.genops(content)]
    pieces = [
        content[start:end] for start, end in zip(places, [*places[1:], len(content)], strict=True)
    ]
    for _ in range(rng.randint(1, 3)):
        at, other = rng.randrange(1, len(pieces) - 1), rng.randrange(1, len(pieces) - 1)
        match rng.randrange(4):
            case 0:
                del pieces[at]
            case 1:
                pieces.insert(at, pieces[other])
            case 2:
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case _:
                piece = bytearray(pieces[at])
                if len(piece) > 1:
                    piece[rng.randrange(1, len(piece))] = rng.choice([0, 1, 2, 127, 128, 255])
                pieces[at] = bytes(piece)
    return b"".join(pieces)


KINDS: dict[str, tuple[Base, Change]] = {
    "dump": (real_dumps, changed_dump),
    "database": (real_database, changed_database),
    "checkpoint": (real_checkpoint, changed_checkpoint),
    "distributed": (real_distributed, changed_distributed),
    "call": (real_call, changed_call),
}


class FaultError(AssertionError):
    """A command that ended as none may; names the kind and the number of the change."""


def runs(
    kind: str, numbers: Iterable[int], kept: Path | None = None, most: int | None = None
) -> Counter[int]:
    """How often each status came, of at least ``most`` commands; FaultError for a fault.

    With ``kept`` faults are counted as status 70 instead, and what was changed stays there.
    """
    make, change = KINDS[kind]
    found: Counter[int] = Counter()
    with tempfile.TemporaryDirectory(prefix="mutated-") as name, closing(Apart()) as apart:
        base = Path(name) / "base"
        base.mkdir()
        make(base)
        for number in numbers:
            if most is not None and found.total() >= most:
                break
            folder = Path(name) / str(number)
            shutil.copytree(base, folder)
            for command in change(folder, random.Random(number)):  # noqa: S311
                status, said = apart.ran(command)
                if status in FINE:
                    found[status] += 1
                    continue
                fault = f"{kind} {number}: {command} ended with {status}: {said}"
                if kept is None:
                    raise FaultError(fault)
                found[70] += 1
                shutil.copytree(folder, kept / f"{kind}-{number}", dirs_exist_ok=True)
                (kept / f"{kind}-{number}" / "said.txt").write_text(fault, "utf-8", "replace")
                print(fault, flush=True)
            shutil.rmtree(folder)
    return found


class Apart:
    """Runs commands in a process that may be ended, a new one after ``TOGETHER`` of them.

    Starting one takes ten times as long as most commands.
    """

    def __init__(self) -> None:
        """No process yet."""
        self._process: BaseProcess | None = None
        self._left = 0

    def ran(self, command: list[str]) -> tuple[int, str]:
        """Status and last words of a command."""
        if not self._left:
            self._start()
        self._left -= 1
        assert self._process is not None
        try:
            self._pipe.send(command)
            if not self._pipe.poll(SECONDS):
                self.close()
                return -signal.SIGALRM, f"it took longer than {SECONDS} seconds"
            status, said, memory = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            self.close()
            return code or -1, "its process ended"
        if memory > MEMORY:
            self.close()
            return -1, f"it took {memory >> 20} MiB"
        return status, said

    def close(self) -> None:
        """End the process, whatever it does."""
        self._left = 0
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def _start(self) -> None:
        self.close()
        self._pipe, inner = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=_run_each, args=(inner, self._pipe))
        self._process.start()
        inner.close()
        self._left = TOGETHER


def _run_each(told: Connection, outer: Connection) -> None:
    outer.close()  # so that the end of who asks is an end here
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while True:
        said = io.StringIO()
        try:
            command = told.recv()
        except EOFError:
            return
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            try:
                status = (operators if command[0] == "replay" else main)(command)
            except SystemExit as ended:
                status = int(ended.code or 0)
        memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        told.send((status, said.getvalue()[-2000:], memory))


def night(count: int, kept: Path) -> int:
    """``count`` commands, as many of each kind, that no night before has tried; the exit status.

    The number that comes next stands in ``kept``, beside what was changed where a fault was found.
    """
    kept.mkdir(parents=True, exist_ok=True)
    state = kept / "next"
    first = int(state.read_text()) if state.is_file() else 1000
    each = -(-count // len(KINDS))
    state.write_text(f"{first + each}\n")  # a night that is stopped is not tried again
    total: Counter[int] = Counter()
    for kind in KINDS:
        found = runs(kind, range(first, first + each), kept, each)
        total += found
        print(f"{datetime.now():%Y-%m-%d %H:%M} {kind} from {first}: {dict(found)}", flush=True)
    print(f"{total.total()} commands, {total[70]} faults")
    return 1 if total[70] else 0


if __name__ == "__main__":
    if sys.argv[1] == "night":
        raise SystemExit(night(int(sys.argv[2]), Path(sys.argv[3])))
    print(dict(runs(sys.argv[1], range(int(sys.argv[2]), int(sys.argv[3])))))
