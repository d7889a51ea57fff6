"""With sketches two monitored runs tell other elements of the same norm, and by how much."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from msprobe_builder.base.errors import BuildError
from msprobe_builder.trend.monitor import read_rank
from msprobe_checks.monitor.compare import MonitorComparison, compare_monitors
from msprobe_checks.monitor.explain import verdict
from msprobe_checks.monitor.explain_replicas import replica_lines
from msprobe_checks.monitor.replicas import compare_replicas
from msprobe_collector import PrecisionDebugger
from msprobe_collector.errors import CollectorError

Change = Callable[[Tensor], Tensor]


class Model(nn.Module):
    """Two layers, between which something may be done to what the first puts out."""

    def __init__(self, change: Change) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 64)
        self.first, self.change, self.last = nn.Linear(64, 64), change, nn.Linear(64, 8)
        self.inner = nn.Identity()

    def forward(self, tokens: Tensor) -> Tensor:
        y = self.first(self.embed(tokens))
        y = self.inner(y)
        if self.training:
            y = self.change(y)
        found: Tensor = self.last(torch.tanh(y))
        return found


class Changed(nn.Module):
    """What is done to a tensor, as a module of its own."""

    def __init__(self, change: Change) -> None:
        super().__init__()
        self.change = change

    def forward(self, x: Tensor) -> Tensor:
        return self.change(x)


def train(
    folder: Path,
    change: Change,
    *,
    sketches: object = True,
    micro_batches: int = 1,
    formats: tuple[str, ...] = ("csv",),
    dtype: torch.dtype = torch.float32,
) -> Path:
    keys = {"formats": formats, "sketches": sketches}
    config = {"task": "monitor", "dump_path": str(folder), "monitor": keys}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(1)
    model = Model(Changed(lambda x: x)).to(dtype)
    model.change = Changed(lambda x: change(x) if step else x)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    debugger = PrecisionDebugger(folder / "config.json")
    debugger.monitor(model)
    step = 0
    for step in range(3):
        for part in range(micro_batches):
            tokens = torch.arange(step + part, step + part + 32).reshape(4, 8) % 16
            model(tokens).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    debugger.stop()
    debugger.close()
    return folder


def compared(tmp_path: Path, change: Change, **options: object) -> MonitorComparison:
    pair = (train(tmp_path / "a", change, **options), train(tmp_path / "b", lambda x: x, **options))  # type: ignore[arg-type]
    return compare_monitors(*pair)


MOVED: dict[str, Change] = {
    "rows exchanged": lambda x: x.flip(0),
    "columns exchanged": lambda x: x.flip(-1),
    "positions shifted": lambda x: x.roll(1, 1),
    "heads exchanged": lambda x: x.reshape(4, 8, 4, 16).flip(-2).reshape(4, 8, 64),
    "another batch order": lambda x: x[[1, 0, 3, 2]],
    "one row for another": lambda x: x[[0, 1, 3, 2]],
}


@pytest.mark.parametrize("name", MOVED)
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_what_moved_elements_is_named_at_its_step(
    tmp_path: Path, name: str, micro_batches: int
) -> None:
    comparison = compared(tmp_path, MOVED[name], micro_batches=micro_batches)
    first = comparison.departures[0]
    assert (first.step, first.kind, first.name) == (1, "activation", "change")
    assert first.apart < 1e-5  # norm and mean are the same
    assert 0.1 < first.elements < 2
    assert "has the other's norm but other elements, off by" in verdict(comparison)
    bare = train(tmp_path / "bare", MOVED[name], sketches=False, micro_batches=micro_batches)
    seen = compare_monitors(bare, tmp_path / "b").departures
    assert not seen or (seen[0].step, seen[0].name) != (1, "change")


def test_the_distance_is_that_of_the_elements(tmp_path: Path) -> None:
    kept: list[Tensor] = []

    def keep(x: Tensor) -> Tensor:
        kept.append(x.detach().clone())
        return x.flip(0)

    first = compared(tmp_path, keep).departures[0]
    right = float((kept[0] - kept[0].flip(0)).norm() / kept[0].norm())
    assert first.elements == pytest.approx(right, rel=0.35)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rounding_is_no_other_element(tmp_path: Path, dtype: torch.dtype) -> None:
    def rounded(x: Tensor) -> Tensor:
        return x.to(torch.bfloat16).to(x.dtype) if x.dtype is torch.float32 else x

    assert not compared(tmp_path, rounded, dtype=dtype).departures


def test_equal_runs_are_equal_to_the_last_element(tmp_path: Path) -> None:
    comparison = compared(tmp_path, lambda x: x, micro_batches=2)
    assert comparison.earliest is None
    [pair] = comparison.ranks
    recorded = np.isfinite(pair.elements)
    kinds = {pair.targets[one][0] for one in pair.target[recorded].tolist()}
    assert kinds == {"weight", "activation", "local_gradient", "gradient"}
    assert (pair.elements[recorded] == 0).all()


def test_a_table_and_parts_hold_the_same(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    a = train(tmp_path / "a", lambda x: x)
    b = train(tmp_path / "b", lambda x: x, formats=("parquet",))
    comparison = compare_monitors(a, b)
    assert not comparison.departures
    [pair] = comparison.ranks
    recorded = pair.elements[np.isfinite(pair.elements)]
    assert len(recorded)
    assert not recorded.any()


def test_where_one_side_has_no_sketches_norms_are_compared(tmp_path: Path) -> None:
    a = train(tmp_path / "a", MOVED["rows exchanged"])
    b = train(tmp_path / "b", lambda x: x, sketches=False)
    assert not compare_monitors(a, b).departures
    assert not compare_monitors(b, a).departures


def test_a_replica_with_exchanged_elements_is_named(tmp_path: Path) -> None:
    whole = train(tmp_path / "run", lambda x: x) / "monitor"
    place = {"coordinates": {"dp": 0}, "replicas": ["dp"]}
    for rank in range(3):
        folder = whole / f"rank{rank}"
        if rank:
            folder.mkdir()
            for file in (whole / "rank0").glob("values*"):
                (folder / file.name).write_bytes(file.read_bytes())
        (folder / "place.json").write_text(json.dumps(place | {"coordinates": {"dp": rank}}))
    assert compare_replicas(whole.parent).parted is None
    [table] = (whole / "rank2").glob("values*.csv")
    rows = list(csv.reader(table.open(encoding="utf-8")))
    head = rows[0]
    weights = [row for row in rows if row[:3] == ["1", "weight", "first.weight"]]
    others = [row for row in rows if row[:3] == ["1", "activation", "first"]]
    weights[0][head.index("sketch")] = others[0][head.index("sketch")]
    with table.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    found = compare_replicas(whole.parent)
    assert found.parted is not None
    assert (found.parted.step, found.parted.name, found.parted.ranks) == (1, "first.weight", (2,))
    assert "first.weight of rank 2 is not that of ranks 0 and 1" in " ".join(replica_lines(found))


@pytest.mark.parametrize("text", ["?", "AAAA", "A" * 170, "\N{SNOWMAN}"])
def test_a_damaged_sketch_is_said(tmp_path: Path, text: str) -> None:
    folder = train(tmp_path / "a", lambda x: x) / "monitor" / "rank0"
    [table] = folder.glob("values*.csv")
    lines = table.read_text("utf-8").splitlines(keepends=True)
    lines[2] = lines[2].rpartition(",")[0] + f",{text}\n"
    table.write_text("".join(lines), "utf-8")
    with pytest.raises(BuildError, match="is damaged"):
        read_rank(folder)


@pytest.mark.parametrize("sketches", [1, "yes", None, {}])
def test_a_wrong_key_is_refused(tmp_path: Path, sketches: object) -> None:
    with pytest.raises(CollectorError, match="sketches is"):
        train(tmp_path / "a", lambda x: x, sketches=sketches)


@pytest.mark.parametrize("cells", [*range(12), 12, 13])
@pytest.mark.parametrize("sketches", [True, False])
def test_a_row_of_another_length_is_damage(tmp_path: Path, cells: int, sketches: bool) -> None:
    folder = train(tmp_path / "a", lambda x: x, sketches=sketches) / "monitor" / "rank0"
    [table] = folder.glob("values*.csv")
    with table.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    if cells == len(rows[0]):
        return
    rows[2] = (rows[2] + ["1", "2", "3"])[:cells]
    with table.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    with pytest.raises(BuildError, match="is damaged in row"):
        read_rank(folder)
