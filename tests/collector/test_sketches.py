"""Recorded sketches: each equals the definition, beside records that they do not change."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from msprobe_builder.dump.flow_layout import Place
from msprobe_builder.sketch.definition import FLAT, sketch_of
from msprobe_builder.sketch.file import Sketches as Read
from msprobe_builder.sketch.file import read_sketches
from msprobe_builder.sketch.layout import NAME, PLACE, ROW
from msprobe_collector import PrecisionDebugger
from msprobe_collector.config.settings import parse_config
from msprobe_collector.errors import CollectorError
from msprobe_collector.record.array_sketches import ArraySketches
from msprobe_collector.record.sketches import Sketches
from msprobe_collector.unseen import unseen
from tests.cases import tried_first
from tests.collector.models import MODELS
from tests.collector.recording import Dump, read_dump, record, saved_tensor, tensors, write_config
from tests.collector.truth.trainings import TRAININGS
from tests.processes import run_program

SKETCH = {"summary_mode": "sketch"}
FILES = ("dump.json", "construct.json")  # when stacks are written depends on the clock
SECTIONS = {
    Place.INPUT: ("input_args", "input_kwargs", "input"),
    Place.OUTPUT: ("output",),
    Place.PARAMETERS: ("parameters",),
    Place.INPUT_GRADIENTS: ("input_gradients",),
    Place.OUTPUT_GRADIENTS: ("output_gradients",),
}


def as_array(tensor: torch.Tensor) -> np.ndarray:
    wide = tensor if tensor.is_complex() or tensor.dtype is torch.float64 else tensor.float()
    return wide.detach().contiguous().numpy()


def shown(dump: Dump) -> Iterator[tuple[tuple[int, int, int], dict[str, Any]]]:
    """Each tensor of a dump: number of its record, section and position, and what it says."""
    for number, (name, entry) in enumerate(dump.data.items()):
        if name.endswith(".parameters_grad"):
            parts = {Place.PARAMETERS_GRAD: list(entry.values())}
        else:
            parts = {
                s: [entry[key] for key in keys if key in entry] for s, keys in SECTIONS.items()
            }
        for section, values in parts.items():
            for position, (_, item) in enumerate(tensors(values)):
                yield (number, int(section), position), item


def read(dump: Dump) -> tuple[Read, dict[tuple[int, int, int], np.ndarray]]:
    """The sketches of a dump, by place."""
    sketches = read_sketches(dump.directory / NAME, len(dump.data))
    assert sketches is not None
    rows = sketches.rows(sketches.places["row"])
    keys = sketches.places[["record", "section", "position"]].tolist()
    assert len(set(keys)) == len(keys)
    return sketches, dict(zip(keys, rows, strict=True))


def trained(
    model: str, training: str, path: Path, **config: Any
) -> tuple[list[Dump], list[torch.Tensor]]:
    """Two recorded steps, and the parameters afterwards."""
    torch.manual_seed(11)
    build, data = MODELS[model]
    net = build()
    debugger = PrecisionDebugger(config_path=write_config(path, **config))

    @contextmanager
    def window() -> Iterator[None]:
        debugger.start(net)
        yield
        debugger.stop()
        debugger.step()

    torch.manual_seed(5)
    TRAININGS[training](net, data(), window)
    debugger.close()
    folders = sorted((path / "dump").glob("step*/rank"))
    return [read_dump(folder) for folder in folders], [p.detach() for p in net.parameters()]


SKETCHED = [
    *(("resnet", "accumulation"), ("vit", "mixed precision")),
    *product(("llama", "mixtral"), ("plain", "accumulation", "fused optimizer")),
    *(("llama", "mixed precision"), ("resnet", "mixed precision"), ("resnet", "plain")),
    ("resnet", "fused optimizer"),
]


@pytest.mark.parametrize(("model", "training"), tried_first(SKETCHED, 2))
def test_each_sketch_is_that_of_the_tensor(model: str, training: str, tmp_path: Path) -> None:
    configs: dict[str, dict[str, Any]] = {
        "s": {},
        "p": {"statistics": {"summary_mode": "statistics"}},
        "t": {"task": "tensor"},
    }
    runs = [trained(model, training, tmp_path / key, **one) for key, one in configs.items()]
    (recorded, parameters), (plain, others), (saved, _) = runs
    assert all(map(torch.equal, parameters, others)), "the training changed"
    assert len(recorded) == len(plain) == len(saved) > 0
    for ours, theirs, true in zip(recorded, plain, saved, strict=True):
        for name in FILES:
            texts = [(dump.directory / name).read_bytes() for dump in (ours, theirs)]
            assert texts[0] == texts[1]
        assert ours.stacks == theirs.stacks
        assert not (theirs.directory / NAME).exists()
        sketches, rows = read(ours)
        places = dict(shown(true))
        assert list(ours.data) == list(true.data)
        seen = 0
        for place, item in places.items():
            tensor = saved_tensor(true.directory, item["data_name"])
            if not tensor.numel():
                assert place not in rows
                continue
            wanted, row = sketch_of(as_array(tensor)), rows[place]
            assert [row["nans"], row["infinities"]] == list(wanted[1:])
            values = np.nan_to_num(as_array(tensor).astype(float), nan=0, posinf=0, neginf=0)
            length = float(np.linalg.norm(values))
            assert np.abs(row["numbers"] - wanted.numbers).max() <= 3e-6 * length, (place, item)
            seen += 1
        assert seen == len(rows) > 50
        assert sketches.starts[-1] < len(rows)  # one for a tensor however many records show it
        size = (ours.directory / NAME).stat().st_size
        assert size <= 300 * sketches.starts[-1] + 12 * len(rows)


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "turned": lambda x: x.t().contiguous().t(),
    "cut": lambda x: torch.cat((x, x), 1)[:, : x.shape[1]],
    "every second": lambda x: torch.stack((x, x + 1), 1)[:, 0],
    "expanded": lambda x: x[:1].expand_as(x),
    "of another type": lambda x: x.bfloat16(),
    "whole numbers": lambda x: (10 * x).long(),
    "truth values": lambda x: x > 0,
    "float64": lambda x: x.double() * 1e3,
    "eight bits": lambda x: x.to(torch.float8_e4m3fn).float(),
    "complex": lambda x: torch.complex(x, x + 1).conj(),
    "one number": lambda x: x[0, 0],
    "not finite": lambda x: torch.where(x > 1, torch.inf, torch.where(x < -1, torch.nan, x)),
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_and_types_have_the_sketch_of_their_numbers(view: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    tensor = VIEWS[view](torch.randn(70, 50))
    dump = record(tmp_path, lambda: torch.logical_not(tensor), level="L1", statistics=SKETCH)
    row = read(dump)[1][0, Place.INPUT, 0]
    wanted = sketch_of(as_array(tensor.resolve_conj()))
    assert [row["nans"], row["infinities"]] == list(wanted[1:])
    size = np.linalg.norm(np.nan_to_num(np.abs(as_array(tensor.resolve_conj())), posinf=0))
    assert np.abs(row["numbers"] - wanted.numbers).max() <= 3e-6 * size


def test_two_runs_have_the_same_sketches(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        (dump, *_), _ = trained("llama", "plain", tmp_path / name, statistics=SKETCH)
        found.append({place: row.tobytes() for place, row in read(dump)[1].items()})
    assert found[0] == found[1]


def moved(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers where no line of the processor's memory begins."""
    return torch.cat((torch.zeros(1), tensor.reshape(-1)))[1:].view(tensor.shape)


def strided(tensor: torch.Tensor) -> torch.Tensor:
    return torch.stack((tensor, tensor), -1)[..., 0]


@pytest.mark.parametrize(
    "shape", [(3,), (40,), (512,), (64, 128), (7, 5, 300), (3, 1000), (1 << 15,), (300, 301)]
)
def test_equal_tensors_have_equal_sketches_wherever_they_lie(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(1)
    tensor = torch.randn(shape, generator=generator)
    sketches = Sketches()
    found = set()
    for others in (0, 1, 5, 70):
        with unseen():
            for number in range(others):
                sketches.add(torch.full(shape, float(number)), None)
            for one in (tensor, moved(tensor), strided(tensor), tensor.double()):
                sketches.add(one, None)
                sketches.add(one, (4.0, -4.0, 0.0, 1.0))  # finite, so that it is read in place
        found |= {row.tobytes() for row in sketches.take()[-8:]}
    assert len(found) == 1


def test_lower_accuracy_of_products_does_not_reach_the_sketches(tmp_path: Path) -> None:
    tensor = torch.randn(300, 200)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        dump = record(tmp_path, lambda: torch.neg(tensor), level="L1", statistics=SKETCH)
    finally:
        torch.set_float32_matmul_precision(before)
    row = read(dump)[1][0, Place.INPUT, 0]
    wanted = sketch_of(as_array(tensor)).numbers
    assert np.abs(row["numbers"] - wanted).max() <= 1e-7 * float(tensor.norm()) * 3


@pytest.mark.parametrize("shape", [(8,), (300, 200), (500, 400)])
def test_autocast_does_not_reach_the_sketches(shape: tuple[int, ...], tmp_path: Path) -> None:
    tensor = torch.randn(shape)

    def run() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            torch.neg(tensor)

    row = read(record(tmp_path, run, level="L1", statistics=SKETCH))[1][0, Place.INPUT, 0]
    wanted = sketch_of(as_array(tensor)).numbers
    assert np.abs(row["numbers"] - wanted).max() <= 1e-7 * float(tensor.norm()) * 3


def test_an_exchange_of_rows_shows_where_statistics_are_equal(tmp_path: Path) -> None:
    tensor = torch.randn(64, 32)
    moved = torch.cat((tensor[4:8], tensor[:4], tensor[8:]))
    dump = record(
        tmp_path, lambda: (torch.neg(tensor), torch.neg(moved)), level="L1", statistics=SKETCH
    )
    _, rows = read(dump)
    one, other = (rows[number, Place.INPUT, 0]["numbers"] for number in (0, 1))
    slices = slice(FLAT, FLAT + 16)
    assert np.allclose(one[slices][[1, 0, *range(2, 16)]], other[slices], atol=1e-5)
    assert np.linalg.norm(one[:FLAT] - other[:FLAT]) > 0.1 * np.linalg.norm(one[:FLAT])


KILLED = """
import os, signal, sys, torch
from msprobe_collector import PrecisionDebugger
debugger = PrecisionDebugger(config_path=sys.argv[1])
layer = torch.nn.Linear(8, 8)
model = torch.nn.Sequential(layer)
debugger.start(model)
for number in range(100_000):
    model(torch.full((2, 8), float(number))).sum().backward()
    if number == 900:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_keeps_the_sketches_of_its_records(tmp_path: Path) -> None:
    config = write_config(tmp_path, statistics=SKETCH)
    assert run_program(tmp_path, KILLED, str(config)).returncode == -signal.SIGKILL
    dump = read_dump(tmp_path / "dump" / "step0" / "rank")
    _, rows = read(dump)
    numbers = {name: number for number, name in enumerate(dump.data)}
    checked = 0
    for name in dump.names("Module.0.Linear.forward"):
        row = rows[numbers[name], Place.INPUT, 0]["numbers"]
        assert row[0] == float(name.rpartition(".")[2])
        checked += 1
    assert checked > 100


def test_a_file_cut_off_anywhere_keeps_its_whole_blocks(tmp_path: Path) -> None:
    model = nn.Linear(8, 8)
    debugger = PrecisionDebugger(config_path=write_config(tmp_path, statistics=SKETCH))
    for _ in range(3):  # each writes blocks of its own
        debugger.start(model)
        model(torch.randn(4, 8)).sum().backward()
        debugger.stop()
    debugger.close()
    dump = read_dump(tmp_path / "dump" / "step0" / "rank")
    path = dump.directory / NAME
    whole = read_sketches(path, len(dump.data))
    content = path.read_bytes()
    assert whole is not None
    found = set()
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        part = read_sketches(path, len(dump.data))
        assert part is not None
        kept = len(part.places)
        assert np.array_equal(part.places, whole.places[:kept])
        row = np.arange(part.starts[-1])
        assert part.rows(row).tobytes() == whole.rows(row).tobytes()
        found.add(kept)
    assert len(found) >= 3


def test_sketches_are_refused_where_none_are_made() -> None:
    section = {"dump_path": "d", "level": "debug", "statistics": SKETCH}
    with pytest.raises(CollectorError, match="works at level L0, L1 or mix"):
        parse_config(section)


def test_an_estimate_counts_them_and_writes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sizes, tensor = [], torch.ones(1000)
    for name, mode in (("a", "statistics"), ("b", "sketch")):
        section = {"summary_mode": mode, "flow": False}
        path = write_config(tmp_path / name, level="L1", statistics=section)
        debugger = PrecisionDebugger(config_path=path, estimate=True)
        with caplog.at_level("INFO", "msprobe_collector"):
            debugger.start()
            for _ in range(100):
                torch.neg(tensor)
            debugger.close()
        assert not (tmp_path / name / "dump").exists()
        sizes.append(float(caplog.messages[-1].split(" calls and ")[1].split(" kB")[0]))
    more = 101 * ROW.itemsize + 200 * PLACE.itemsize
    assert abs(sizes[1] - sizes[0] - more / 1000) < 0.11


def test_a_step_goes_on_numbering_and_the_next_begins_at_zero(tmp_path: Path) -> None:
    config = write_config(tmp_path, level="L1", statistics=SKETCH)
    debugger = PrecisionDebugger(config_path=config)
    for values in ((1.0, 2.0), (3.0,)):
        for value in values:
            tensor = torch.full((2, 2), value)
            debugger.start()
            torch.neg(tensor)
            debugger.stop()
        debugger.step()
    debugger.close()
    for step, wanted in enumerate(([1.0, 2.0], [3.0])):
        dump = read_dump(tmp_path / "dump" / f"step{step}" / "rank")
        _, rows = read(dump)
        inputs = [rows[n, Place.INPUT, 0]["numbers"][0] for n in range(len(dump.data))]
        assert inputs == wanted


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (7,), (64, 33), (3, 130, 70)])
def test_arrays_have_the_sketch_of_tensors(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """What MindSpore records meets what torch does."""
    torch.manual_seed(3)
    tensor = (10 * torch.randn(shape)).to(dtype)
    arrays, tensors = ArraySketches(), Sketches()
    assert arrays.add(tensor.numpy()) == arrays.add(tensor.numpy().copy()) == 0
    with unseen():
        tensors.add(tensor, None)
    [own], [other] = arrays.take(), tensors.take()
    size = np.linalg.norm(as_array(tensor))
    np.testing.assert_allclose(own["numbers"], other["numbers"], rtol=0, atol=2e-6 * float(size))


@pytest.mark.parametrize("shape", [(5,), (300,), (70, 90), (400, 301), (3, 200, 130)])
def test_sums_by_the_flat_order_alone_are_the_same(shape: tuple[int, ...]) -> None:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(4))
    flat, whole = Sketches(is_flat=True), Sketches()
    with unseen():
        for one in (flat, whole):
            one.add(values, (4.0, -4.0, 0.0, 1.0))
        own, other = (one.take()["numbers"][0] for one in (flat, whole))
    size = float(values.norm())
    assert own[:FLAT] == pytest.approx(other[:FLAT], rel=1e-5, abs=1e-6 * size)
    if values.numel() > 512:  # one product makes all of a shorter one
        assert other[FLAT:].any()
        assert not own[FLAT:].any()
