"""Files from outside are opened by one package, whatever a module does to open them."""

from __future__ import annotations

import pytest

from tests.readers import readers
from tests.test_structure import PACKAGES, REPOSITORY, module_name

DOOR = "msprobe_builder.files"
# Who else reads, by what, and why that is no file from outside or was checked by the door.
PAST_THE_DOOR = {
    "msprobe_bisect.standalone: ctypes": "the memory of a tensor",
    "msprobe_bisect.standalone: importlib.machinery": "the user's own module",
    "msprobe_bisect.standalone: importlib.util": "the user's own module",
    "msprobe_bisect.standalone: read_text": "what the training that it started has written",
    "msprobe_bisect.standalone: shutil.copy": "itself",
    "msprobe_bisect.standalone: subprocess": "the training",
    "msprobe_builder.align.groups.fused: read_text": "a table of the package",
    "msprobe_builder.base.memory: ctypes": "tells the C library what to do with memory",
    "msprobe_builder.base.publish: open": "what was just written, to sync it",
    "msprobe_builder.base.publish: os.open": "folders, to sync what is in them",
    "msprobe_builder.base.sources: read_bytes": "modules of the package",
    "msprobe_builder.configuration.pack: lzma": "its errors",
    "msprobe_builder.configuration.pack: zipfile": "its errors, and an archive of the door's",
    "msprobe_builder.configuration.pack: ZipFile": "an archive of the door's, by type",
    "msprobe_builder.database.connection: sqlite3.connect": "the door of databases",
    "msprobe_builder.database.layout: pkgutil.get_data": "the schema, of the package",
    "msprobe_builder.database.query: sqlite_utils": "an answer, to print it",
    "msprobe_builder.database.trends.open: read_text": "the schema, of the package",
    "msprobe_builder.database.write.gather: ATTACH": "files that this build wrote",
    "msprobe_builder.database.write.packed: open": "a file of its own, before it has its name",
    "msprobe_builder.dump.argument_gradients: os.fdopen": "a file that the door opened",
    "msprobe_builder.dump.flow_file: mmap": "what the door mapped, by type",
    "msprobe_builder.dump.json_stream: os.fdopen": "a file that the door opened",
    "msprobe_builder.export.table: gzip": "packs what it writes",
    "msprobe_builder.export.tensor_files: shutil.copyfile": "a file that the door opened before",
    "msprobe_builder.facts.wording: pkgutil.get_data": "sentences of the package",
    "msprobe_builder.importers.reference: shutil.move": "a file that was just written",
    "msprobe_builder.metrics.tensor_file: importlib.util": "asks whether torch is installed",
    "msprobe_builder.operators.table: read_text": "tables of the package",
    "msprobe_builder.pipeline.early: shutil.copyfile": "a file that this build wrote",
    "msprobe_builder.pipeline.executors.attempt: open": "a file that this build wrote, to sync it",
    "msprobe_builder.pipeline.join: shutil.copyfile": "a file that this build wrote",
    "msprobe_builder.pipeline.merged_export: read_text": "findings that this build wrote",
    "msprobe_builder.pipeline.shards: os.open": "its own lock",
    "msprobe_builder.rematch.parts: load": "texts of an open database",
    "msprobe_builder.sketch.file: mmap": "what the door mapped, by type",
    "msprobe_builder.tables.compare: pandas": "makes tables of what is in memory",
    "msprobe_checks.configuration.collect: zipfile": "writes",
    "msprobe_checks.configuration.collect: ZipFile": "writes",
    "msprobe_operators.call.apart: pickle": "errors of a process of its own",
    "msprobe_operators.call.apart: read_text": "what Linux tells of this process",
    "msprobe_operators.dump.run: open": "its own journal, to add to it",
    "msprobe_collector.intercept.redirect: compile": "a function of the training's",
    "msprobe_collector.intercept.redirect: exec": "a function of the training's",
    "msprobe_collector.monitor.write: pyarrow": "writes",
    "msprobe_collector.record.ledger: open": "its own rows, to write them",
    "msprobe_collector.record.stack: linecache": "the source of the training that it records",
    "msprobe_collector.record.statistics: ctypes": "the memory of a tensor",
    "msprobe_collector.run.command: subprocess": "the training",
    "msprobe_collector.run.notes: read_text": "notes of processes that it has started",
    "msprobe_collector.run.settings: read_text": "settings that msprobe-run has just written",
    "msprobe_collector.run.start.sitecustomize: importlib.machinery": "the user's own module",
    "msprobe_collector.run.start.sitecustomize: importlib.util": "the user's own module",
    "msprobe_collector.write.claim: read_text": "what Linux tells of this process",
    "msprobe_collector.write.host_bytes: ctypes": "the memory of a tensor",
    "msprobe_collector.write.tensor_store: os.open": "a file that it empties, to write it",
    "tb_graph_ascend.edit.convert: subprocess": "the builder, which imports",
    "tb_graph_ascend.http.downloads: open": "a table that was just written",
    "tb_graph_ascend.http.hosts: read_text": "the resolver's configuration",
    "tb_graph_ascend.http.responses: gzip": "packs what it sends",
    "tb_graph_ascend.http.static_files: read_bytes": "the bundle, of the package",
    "tb_graph_ascend.page.write: gzip": "packs what it writes",
    "tb_graph_ascend.page.write: read_text": "the bundle, of the package",
    "tb_graph_ascend.query.expressions: subprocess": "Python, for one expression",
}


def test_files_from_outside_are_opened_by_one_package() -> None:
    """msprobe_builder/files has the limits, refuses pipes and runs no pickles; others ask it."""
    found = {
        f"{module_name(path)}: {what}"
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("*.py")
        if not f"{module_name(path)}.".startswith(f"{DOOR}.")
        for what in readers(path.read_text(encoding="utf-8"))
    }
    assert not sorted(found - PAST_THE_DOOR.keys()), "ask msprobe_builder/files"
    assert not sorted(PAST_THE_DOOR.keys() - found), "they do not any more: take them out"


# Ways round the door, each of which somebody might take.
TRICKS = [
    "open(p)",
    "open(p, 'r+b')",
    "open('w')",
    "open(p, mode)",
    "open(p, mode='w+')",
    "read = open; read(p)",
    "list(map(open, paths))",
    "from functools import partial; partial(open, mode='rb')(p)",
    "[open][0](p)",
    "import io; io.open(p)",
    "from io import open as begin; begin(p, 'rb')",
    "from io import FileIO; FileIO(p)",
    "import io; io.FileIO(p)",
    "import builtins; builtins.open(p)",
    "import _io",
    "import codecs; codecs.open(p)",
    "import os; os.open(p, 0)",
    "import os as system; system.open(p, system.O_RDONLY)",
    "from os import open as o; o(p, 0)",
    "import os; os.fdopen(handle)",
    "import os; os.system('cat x')",
    "import os; os.execv(p, [])",
    "import subprocess; subprocess.run(['cat', p])",
    "p.open()",
    "p.open('r')",
    "with p.open(encoding='utf-8') as file: pass",
    "begin = p.open; begin()",
    "from pathlib import Path; Path.open(p)",
    "p.read_text()",
    "read = p.read_bytes; read()",
    "from pathlib import Path; list(map(Path.read_text, paths))",
    "getattr(p, 'read_text')()",
    "from operator import methodcaller; methodcaller('read_bytes')(p)",
    "import numpy as np; np.load(p)",
    "import numpy as numbers; numbers.load(p)",
    "from numpy import load; load(p)",
    "from numpy import *",
    "import numpy as np; read = np.load",
    "import numpy as np; np.lib.format.open_memmap(p)",
    "import numpy as np; x = np; x.load(p)",
    "import numpy as np; np.memmap(p)",
    "import torch; torch.load(p)",
    "def f(torch): return torch.load(p)",
    "import torch; torch.jit.load(p)",
    "import torch; torch.UntypedStorage.from_file(p)",
    "from torch import load as read; read(p)",
    "from torch.serialization import load",
    "import torch; torch.ops.load_library(p)",
    "import pickle; pickle.load(file)",
    "from pickle import Unpickler as U; U(file)",
    "import shelve",
    "import json; json.load(open(p))",
    "import yaml; yaml.load(text, Loader=yaml.Loader)",
    "import sqlite3; sqlite3.connect(p)",
    "import sqlite3; sqlite3.connect(f'file:{p}?mode=ro', uri=True)",
    "import sqlite3 as s; s.Connection(p)",
    "from sqlite3 import connect; connect(p)",
    "from sqlite3.dbapi2 import connect; connect(p)",
    "connection.execute('attach ? as other', (p,))",
    "import zipfile; zipfile.ZipFile(p)",
    "from zipfile import ZipFile as Z; Z(p)",
    "from importlib import import_module; import_module('zipfile').ZipFile(p)",
    "import importlib; importlib.import_module('pickle')",
    "__import__('pickle').load(file)",
    "eval('open')(p)",
    "import tarfile; tarfile.open(p)",
    "import gzip; gzip.open(p)",
    "import mmap",
    "from safetensors.torch import load_file; load_file(p)",
    "from pyarrow.parquet import read_table",
    "import pandas as pd; pd.read_csv(p)",
    "import shutil; shutil.copyfile(p, q)",
    "import linecache; linecache.getlines(p)",
    "import xml.etree.ElementTree as tree; tree.parse(p)",
    "from configparser import ConfigParser; ConfigParser().read(p)",
    "from urllib.request import urlopen; urlopen('file:///etc/passwd')",
    "from msprobe_builder.files.regular import os; os.open(p, 0)",
    "from msprobe_builder.files import saved; saved.torch.load(p)",
    "from msprobe_builder.files.archive import zipfile",
    "import msprobe_builder.files.arrays as door; door.np.load(p)",
]
FAIR = [
    "open(p, 'w')",
    "open(p, mode='xb')",
    "p.open('wb')",
    "p.open(mode='a')",
    "import os; os.open(p, os.O_WRONLY | os.O_CREAT)",
    "import os; os.open(p, os.O_CREAT | os.O_EXCL)",
    "import json; json.loads(text)",
    "import yaml; yaml.safe_load(text)",
    "import sqlite3; sqlite3.connect(':memory:')",
    "import sqlite3\ndef f(of: sqlite3.Connection) -> None: ...",
    "parameter.load()",
    "pairs.open[side]",
    "wanted = ~runs.open",
    "from msprobe_builder.files.regular import read_text; read_text(p)",
    "from msprobe_builder.files.parquet import read_parquet_rows",
    "import numpy as np; np.zeros(3)",
]


@pytest.mark.parametrize("source", TRICKS)
def test_ways_round_the_door_are_found(source: str) -> None:
    assert list(readers(source))


@pytest.mark.parametrize("source", FAIR)
def test_what_asks_the_door_or_writes_is_left_alone(source: str) -> None:
    assert not list(readers(source))
