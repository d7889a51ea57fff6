"""What is fuzzed: each reader takes any bytes and returns, or raises the one error it promises."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msprobe_bisect.journal import open_journal
from msprobe_bisect.traces import parting
from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.options import BuildOptions
from msprobe_builder.base.texts import Texts
from msprobe_builder.configuration.compare import compare_packs
from msprobe_builder.configuration.pack import read_pack
from msprobe_builder.database.trends.open import opened_trend
from msprobe_builder.database.trends.read import read_axes, read_place, read_window
from msprobe_builder.database.verify import verify
from msprobe_builder.dump.flow_file import read_flow
from msprobe_builder.dump.read import read_dump
from msprobe_builder.facts.fact import encode
from msprobe_builder.graph.tree import build_tree
from msprobe_builder.importers.reference_rows import read_reference
from msprobe_builder.match.match_file import parse_match_file
from msprobe_builder.match.renaming import read_renaming
from msprobe_builder.match.rules import read_rules
from msprobe_builder.metrics.tensor_file import TensorFileError, open_tensor
from msprobe_builder.pipeline.config import read_config
from msprobe_builder.sketch.file import read_sketches
from msprobe_builder.trend.build import build_trend
from msprobe_builder.trend.monitor import read_rank
from msprobe_checks.checkpoint.compare import compare
from msprobe_checks.checkpoint.locate import read_checkpoint
from msprobe_checks.checkpoint.report import summary_lines
from msprobe_checks.gradients.similarity import compare_gradients
from msprobe_checks.monitor.compare import compare_monitors
from msprobe_checks.monitor.explain import verdict
from msprobe_operators.call.saved import SavedCallError, load_call
from msprobe_operators.report.join import join_tables, left_out

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
    """A mapping file of each kind: of layers, cells, functions, values."""
    file = folder / "mapping.yaml"
    file.write_bytes(content)
    for options in (
        BuildOptions(cell_mapping=True, cell_mapping_file=file),
        BuildOptions(api_mapping=True, api_mapping_file=file),
        BuildOptions(data_mapping_file=file),
    ):
        with suppress(UsageError):
            read_renaming(options)
    read_rules(file)


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


def settings(content: bytes, folder: Path) -> None:
    """The zip file of a configuration, compared with itself."""
    (folder / "a.zip").write_bytes(content)
    pack = read_pack(folder / "a.zip")
    compare_packs(pack, pack)


def checkpoint(content: bytes, folder: Path) -> None:
    """A file of torch.save, compared with itself."""
    (folder / "a.pt").write_bytes(content)
    whole = read_checkpoint(folder / "a.pt")
    summary_lines(compare(whole, whole))


def distributed(content: bytes, folder: Path) -> None:
    """The index of a distributed checkpoint whose parts are missing."""
    (folder / ".metadata").write_bytes(content)
    whole = read_checkpoint(folder)
    for one in whole.parameters.values():
        one.load()


def safetensors(content: bytes, folder: Path) -> None:
    """A file of safetensors."""
    (folder / "a.safetensors").write_bytes(content)
    for one in read_checkpoint(folder / "a.safetensors").parameters.values():
        one.load()


def tensor(content: bytes, folder: Path) -> None:
    """A tensor of a dump, as torch and as numpy write it."""
    for name in ("a.pt", "a.npy"):
        (folder / name).write_bytes(content)
        with suppress(TensorFileError):
            open_tensor(folder, name)


def gradients(content: bytes, folder: Path) -> None:
    """A summary of gradients, compared with itself."""
    (folder / "rank0" / "step0").mkdir(parents=True)
    (folder / "rank0" / "grad_summary_0.csv").write_bytes(content)
    compare_gradients(folder, folder)


def monitor(content: bytes, folder: Path) -> None:
    """The values of a monitor, ours and the reference tool's, compared with themselves."""
    ours, theirs = folder / "monitor" / "rank0", folder / "x" / "a_01-01-01-rank0-x"
    for place, name in ((ours, "values_step0.csv"), (theirs, "grad_reduced_0-9.csv")):
        place.mkdir(parents=True)
        (place / name).write_bytes(content)
    for one in (folder, folder / "x"):
        with suppress(BuildError, UsageError):
            verdict(compare_monitors(one, one))


def flow(content: bytes, folder: Path) -> None:
    """The flow of tensors beside a dump."""
    (folder / "flow").write_bytes(content)
    read_flow(folder / "flow", ["a.forward"])


def sketches(content: bytes, folder: Path) -> None:
    """The sketches beside a dump."""
    (folder / "sketches").write_bytes(content)
    read_sketches(folder / "sketches", 3)


def call(content: bytes, folder: Path) -> None:
    """A call that was saved to be replayed."""
    (folder / "a.pkl").write_bytes(content)
    with suppress(SavedCallError):
        load_call(folder / "a.pkl")


def trend(content: bytes, folder: Path) -> None:
    """A file of trends, ours or the reference tool's."""
    file = folder / "a.trend.db"
    file.write_bytes(content)
    with suppress(BuildError, UsageError):
        build_trend(file, folder / "out")
    with opened_trend(file) as connection:
        axes = read_axes(connection)
        read_place(connection, 1)
        read_window(connection, "norm", range(9), axes.ranks[:9], axes.steps[:9])


def table(content: bytes, folder: Path) -> None:
    """The values of a monitor as Parquet."""
    (folder / "values_step0.parquet").write_bytes(content)
    read_rank(folder)


def trace(content: bytes, folder: Path) -> None:
    """A line for each step, compared with itself and with a whole one."""
    for name, lines in (("own", content), ("other", content + b"\n" + content)):
        (folder / name).mkdir()
        (folder / name / "trace.jsonl").write_bytes(lines)
    for one, other in (("own", "own"), ("own", "other")):
        parting(folder / one, folder / other)


def search(content: bytes, folder: Path) -> None:
    """The state of a search."""
    (folder / "bisect.json").write_bytes(content)
    open_journal(folder, None)


def results(content: bytes, folder: Path) -> None:
    """The results of single operators on two devices, joined with themselves."""
    (folder / "a.csv").write_bytes(content)
    join_tables(folder / "a.csv", folder / "a.csv")
    left_out(folder / "a.csv", folder / "a.csv")


TARGETS: dict[str, Target] = {
    one.__name__: one
    for one in (
        *(dump, construct, stack, config, mapping, matches, database, reference, settings),
        *(checkpoint, distributed, safetensors, tensor, gradients, monitor, flow, sketches),
        *(call, trend, table, trace, search, results),
    )
}


def run(name: str, content: bytes) -> None:
    """One execution; whatever it raises is a fault of ours."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        try:
            TARGETS[name](content, Path(folder))
        except BuildError as error:
            assert str(error)
            assert "\n" not in str(error)
