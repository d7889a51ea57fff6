"""Real files with something changed that keeps their form, and the commands that read them.

What a changed byte would only break stays whole (JSON, pages, checksums), and values, shapes,
names and references become others.
"""

from __future__ import annotations

import contextlib
import csv
import json
import pickletools
import random
import shutil
import sqlite3
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any

from msprobe_builder.command.main import main

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
    return [["operators", "replay", str(path), "--seconds", "5"]]


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


def real_ranks(folder: Path) -> None:
    """Four ranks that communicate, and one run that is split in two beside one that is not."""
    data = Path(__file__).parents[1] / "data"
    for name in ("collectives4_statistics", "megatron_tp2pp1_L0", "megatron_tp1pp1_L0"):
        shutil.unpack_archive(data / f"{name}.tar.xz", folder)
        for step in (folder / name).glob("step[1-9]*"):
            shutil.rmtree(step)
    split, whole = (f"megatron_tp{size}pp1_L0/step0" for size in (2, 1))
    ways = {
        "linked": {"npu_path": "collectives4_statistics/step0"},
        "merged": {"npu_path": split, "bench_path": whole, "parallel_merge": "auto"},
    }
    for name, content in ways.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


def changed_ranks(folder: Path, rng: random.Random) -> list[list[str]]:
    """Values of one rank become others; the commands link or merge the ranks."""
    way, of = rng.choice([("linked", "collectives4_statistics"), ("merged", "megatron_tp2pp1_L0")])
    rank = rng.choice(sorted((folder / of / "step0").iterdir()))
    file = rank / rng.choice(["dump.json"] * 4 + ["construct.json", "stack.json"])
    content = json.loads(file.read_text("utf-8"))
    for _ in range(rng.randint(1, 3)):
        change_value(content, rng)
    file.write_text(json.dumps(content), "utf-8")
    return [["-i", str(folder / f"{way}.json"), "-o", str(folder / "out"), "-oc"]]


def recorded(folder: Path) -> None:
    """A step of a small model with tensors and one with flow and sketches, gradients, a monitor,
    and its settings, twice each.
    """
    import torch

    from msprobe_collector import ConfigChecker, PrecisionDebugger

    configurations: dict[str, dict[str, Any]] = {
        "tensor": {"task": "tensor", "level": "mix", "tensor": {"layout": "files"}},
        "sketch": {"level": "mix", "statistics": {"summary_mode": "sketch", "flow": True}},
        "grad": {"task": "grad_probe", "grad_probe": {"grad_level": "L2"}},
        "monitor": {"task": "monitor", "monitor": {"formats": ["csv"], "sketches": True}},
    }
    for number, (name, keys) in enumerate(configurations.items()):
        for side in ("a", "b"):
            torch.manual_seed(number)
            model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU())
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            config = folder / "config.json"
            config.write_text(json.dumps({"dump_path": str(folder / f"{name}_{side}"), **keys}))
            debugger = PrecisionDebugger(str(config))
            if name in ("grad", "monitor"):
                debugger.monitor(model)
            for _ in range(2):
                if name not in ("grad", "monitor"):
                    debugger.start(model)
                model(torch.ones(2, 4)).square().sum().backward()
                debugger.stop() if name not in ("grad", "monitor") else None
                debugger.step()
                optimizer.step()
            debugger.stop()
            debugger.close()
    for side in ("a", "b"):
        ConfigChecker(model, [], str(folder / f"{side}.zip"))
        model(torch.ones(2, 4))
    for name in ("tensor", "sketch"):
        first, second = (f"{name}_{side}/step0/rank" for side in "ab")
        paths = {"npu_path": first, "bench_path": second}
        (folder / f"{name}.json").write_text(json.dumps(paths))


def changed_recording(folder: Path, rng: random.Random) -> list[list[str]]:
    """Values of a recorded step become others; the commands compare it and run its calls again."""
    name = rng.choice(["tensor", "sketch"])
    step = folder / f"{name}_a" / "step0" / "rank"
    file = step / rng.choice(["dump.json"] * 4 + ["construct.json", "stack.json"])
    content = json.loads(file.read_text("utf-8"))
    for _ in range(rng.randint(1, 3)):
        change_value(content, rng)
    file.write_text(json.dumps(content), "utf-8")
    compared, out = ["-i", str(folder / f"{name}.json")], str(folder / "out")
    commands = [
        [*compared, "-o", out],
        ["table", *compared, "-o", str(folder / "table")],
        ["trend", str(folder / f"{name}_a"), "-o", str(folder / "trend")],
    ]
    call = rng.choice(["Functional.linear.0", "Functional.gelu.0", "Tensor.sum.0"])
    again = rng.choice(
        [
            ["check", str(step), "-o", out, "--call", call, "--seconds", "5"],
            ["perturb", str(step), "--call", call, "--seconds", "5"],
            ["overflow", str(step), "--seconds", "5"],
            ["script", str(step), "--call", call, "-o", str(folder / "call.py")],
        ]
    )
    return [*commands, ["operators", *again]]


def changed_record(folder: Path, rng: random.Random) -> list[list[str]]:
    """Cells of a table of gradients or a monitor, or settings, become others."""
    kind = rng.choice(["grad", "monitor", "config"])
    if kind == "config":
        change_entries(folder / "a.zip", rng)
        first, second = (str(folder / f"{side}.zip") for side in "ab")
        return [["config", "compare", first, second, "-o", str(folder / "out")]]
    file = rng.choice(sorted((folder / f"{kind}_a").rglob("*.csv")))
    change_cells(file, rng)
    sides = [str(folder / f"{kind}_{side}") for side in "ab"]
    command = "gradients" if kind == "grad" else kind
    trend = ["trend", sides[0], "-o", str(folder / "trend")]
    return [[command, *sides, "-o", str(folder / "out")], *([trend] if kind == "monitor" else [])]


def change_cells(file: Path, rng: random.Random) -> None:
    """One to three cells, rows or columns become others, are removed or doubled."""
    with file.open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.reader(stream))
    for _ in range(rng.randint(1, 3)):
        row = rng.choice(rows)
        if not row:
            continue
        at = rng.randrange(len(row))
        match rng.randrange(5):
            case 0 | 1:
                row[at] = str(rng.choice(ODD))
            case 2:
                del row[at]
            case 3:
                rows.append(list(row))
            case _:
                row[at] = rng.choice(rng.choice(rows) or [""])
    with file.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
        csv.writer(stream, quoting=csv.QUOTE_ALL).writerows(
            [cell.replace("\0", "") for cell in row] for row in rows
        )


def change_entries(file: Path, rng: random.Random) -> None:
    """Values in an entry of JSON in a zip file become others."""
    with zipfile.ZipFile(file) as archive:
        entries = {one.filename: archive.read(one) for one in archive.infolist()}
    name = rng.choice(sorted(entries))
    with contextlib.suppress(ValueError):
        content = json.loads(entries[name])
        for _ in range(rng.randint(1, 3)):
            change_value(content, rng)
        entries[name] = json.dumps(content).encode()
    with zipfile.ZipFile(file, "w") as archive:
        for one, content in entries.items():
            archive.writestr(one, content)


KINDS: dict[str, tuple[Base, Change]] = {
    "dump": (real_dumps, changed_dump),
    "database": (real_database, changed_database),
    "checkpoint": (real_checkpoint, changed_checkpoint),
    "distributed": (real_distributed, changed_distributed),
    "call": (real_call, changed_call),
    "ranks": (real_ranks, changed_ranks),
    "recording": (recorded, changed_recording),
    "record": (recorded, changed_record),
}
