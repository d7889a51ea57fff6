"""One pass over a tensor finds what numpy and torch find, wherever the numbers lie."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import gc
import json
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.sketch.definition import NUMBERS, sketch_of
from msprobe_builder.sketch.layout import NAME, ROW, rows_of
from msprobe_collector.one_pass import loaded, passes
from msprobe_collector.one_pass.passes import fingerprint_of, pass_over
from msprobe_collector.record.sketches import Sketches
from msprobe_collector.record.statistics import measure
from msprobe_collector.unseen import unseen
from tests.collector.recording import read_dump, tensors
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.skipif(not passes.is_there(), reason="the compiled module is not there")

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# Less than a lane, around the ends of lanes, blocks and periods, one row, one column, many short
# rows, and slices of less than a period and of several.
SHAPES = [
    *((), (1,), (3,), (32,), (33,), (512,), (1024,), (1025,), (2047,), (2049,), (30_000,)),
    *((1, 7), (5, 1), (1025, 1), (64, 128), (7, 5, 300), (3, 1000), (300, 301), (2000, 3)),
    *((1500, 64), (1500, 65), (200, 3, 3, 3), (40, 30, 3, 3), (2, 33_000), (1, 5000), (70, 4097)),
]
VIEWS = {
    "as it is": lambda x: x,
    "turned": lambda x: x.transpose(0, -1) if x.dim() > 1 else x,
    "every second": lambda x: torch.stack((x, x), -1)[..., 0],
    "a part": lambda x: torch.cat((x, x), -1)[..., : x.shape[-1]] if x.dim() else x,
    "expanded": lambda x: x[:1].expand_as(x) if x.dim() else x,
    "moved": lambda x: torch.cat((x.reshape(-1)[:1], x.reshape(-1)))[1:].view(x.shape),
}


def made(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(len(shape))
    numbers = 30 * torch.randn(shape)
    return numbers > 0 if dtype is torch.bool else numbers.abs().to(dtype)


def wide(tensor: torch.Tensor) -> np.ndarray:
    return tensor.to(torch.int64 if tensor.dtype in WHOLE else torch.float64).numpy()


def found(tensor: torch.Tensor) -> tuple[Any, int, np.ndarray]:
    """Values, fingerprint and the row of a sketch."""
    passed = pass_over(tensor, True)
    assert passed is not None
    values, fingerprint, row = passed
    assert row is not None
    return values, fingerprint, np.frombuffer(row, ROW)[0]


def by_torch(tensor: torch.Tensor) -> Any:
    """The four statistics as torch finds them; call inside ``unseen``."""
    measured: Any = measure(tensor)
    return measured.values


@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE], ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_numbers_are_those_of_numpy_and_torch(view: str, dtype: torch.dtype) -> None:
    for shape in SHAPES:
        tensor = VIEWS[view](made(shape, dtype))
        (high, low, mean, norm), _, row = found(tensor)
        numbers = wide(tensor)
        assert (high, low) == (numbers.max(), numbers.min()), shape
        assert type(high) is type(low) is float
        assert math.isclose(mean, numbers.astype(float).mean(), rel_tol=2e-7)
        true = float(np.linalg.norm(numbers.astype(float)))
        assert math.isclose(norm, true, rel_tol=7e-8), shape  # rounded to float32 at most
        with unseen():
            assert np.allclose(by_torch(tensor), (high, low, mean, norm), rtol=1e-5, atol=0)
        wanted = sketch_of(tensor.double().numpy())
        assert np.abs(row["numbers"] - wanted.numbers).max() <= 2e-6 * true, shape
        assert row["nans"] == row["infinities"] == 0


@pytest.mark.parametrize("view", VIEWS)
def test_truth_values_have_extremes_and_a_sketch(view: str) -> None:
    for shape in SHAPES:
        tensor = VIEWS[view](made(shape, torch.bool))
        values, _, row = found(tensor)
        assert values == (bool(tensor.any()), bool(tensor.all()), None, None)
        wanted = sketch_of(tensor.double().numpy()).numbers
        assert np.abs(row["numbers"] - wanted).max() <= 1e-4


ODD = [0.0, -0.0, 1.0, -1.0, 1e-45, -1e-40, 3.4e38, -3.4e38, 1e30, math.nan, math.inf, -math.inf]


@given(
    st.lists(st.sampled_from(ODD) | st.floats(width=32), min_size=1, max_size=70),
    st.sampled_from(FLOATS),
    st.integers(0, 3000),
)
def test_odd_numbers_are_found_wherever_they_stand(
    numbers: list[float], dtype: torch.dtype, before: int
) -> None:
    tensor = torch.cat((torch.ones(before), torch.tensor(numbers))).to(dtype)
    (high, low, mean, norm), _, row = found(tensor)
    exact = tensor.double().numpy()
    with np.errstate(all="ignore"):
        assert np.array_equal([high, low], [exact.max(), exact.min()], equal_nan=True)
        narrow = tensor.float().numpy()
        if np.isfinite(narrow).all():
            assert math.isclose(norm, np.linalg.norm(exact), rel_tol=7e-8)
            limit = 2e-7 * np.abs(exact).mean()
            assert abs(mean - exact.mean()) <= limit
        else:
            assert np.array_equal(norm, np.linalg.norm(exact), equal_nan=True)
        with unseen():
            others = by_torch(tensor)
        assert np.array_equal(np.isfinite(others), np.isfinite((high, low, mean, norm)))
    wanted = [int(np.isnan(narrow).sum()), int(np.isinf(narrow).sum())]
    assert [row["nans"], row["infinities"]] == wanted
    clean = np.nan_to_num(narrow.astype(float), nan=0, posinf=0, neginf=0)
    if np.abs(clean).sum() < 1e38:
        off = np.abs(row["numbers"] - sketch_of(exact).numbers).max()
        assert off <= 1e-6 * np.linalg.norm(clean) + 1e-44


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        ([2**62, -(2**61)], (2**62, -(2**61))),  # which a float would round
        ([2**53, -(2**53)], (float(2**53), float(-(2**53)))),
    ],
)
def test_whole_numbers_are_floats_unless_that_rounds_them(
    numbers: list[int], wanted: tuple[float, float]
) -> None:
    values = found(torch.tensor(numbers))[0]
    assert values[:2] == wanted
    assert [type(one) for one in values[:2]] == [type(one) for one in wanted]


def test_every_half_number_is_widened_exactly() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        every = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(dtype)
        numbers = every[every.isfinite()]
        for part in numbers.split(32):  # of which the sketch keeps the numbers themselves
            row = found(part)[2]
            assert row["numbers"][: len(part)].tolist() == part.tolist()
        row = found(every)[2]
        assert [row["nans"], row["infinities"]] == [int(every.isnan().sum()), 2]


@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE, torch.bool], ids=str)
def test_every_processor_finds_the_same(dtype: torch.dtype) -> None:
    try:
        for shape in SHAPES:
            for view in ("as it is", "turned"):
                tensor, seen = VIEWS[view](made(shape, dtype)), set()
                for level in range(3):
                    loaded.compiled.limit(level)
                    seen.add(pass_over(tensor, True))
                assert len(seen) == 1, (shape, view)
    finally:
        loaded.compiled.limit(2)


@pytest.mark.parametrize("shape", [(3,), (40,), (512,), (64, 128), (7, 5, 300), (1 << 15,)])
def test_equal_tensors_have_equal_bytes_wherever_they_lie(shape: tuple[int, ...]) -> None:
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    turned = tensor.t().contiguous().t() if tensor.dim() == 2 else tensor
    views = [VIEWS[name](tensor) for name in ("as it is", "every second", "moved")]
    assert len({found(one)[2].tobytes() for one in (*views, turned, tensor.double())}) == 1
    assert len({found(one)[0] for one in (*views, turned)}) == 1
    assert len({found(one)[1] for one in views}) == 1  # turned has another order in memory


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 3)), min_size=3, max_size=5),
    st.randoms(use_true_random=False),
    st.sampled_from([torch.float32, torch.bfloat16, torch.int16, torch.float64, torch.bool]),
)
def test_any_steps_in_any_order_give_the_numbers_of_a_copy(
    sizes: list[tuple[int, int]], chance: Random, dtype: torch.dtype
) -> None:
    whole = made(tuple(size * step for size, step in sizes), dtype)
    cut = whole[tuple(slice(step - 1, None, step) for _, step in sizes)]
    order = list(range(len(sizes)))
    chance.shuffle(order)
    view = cut.permute(order)
    (values, fingerprint, row), copied = found(view), found(view.contiguous())
    assert row.tobytes() == copied[2].tobytes()
    assert values[:2] == copied[0][:2]
    if dtype is not torch.bool:
        assert np.allclose(values, copied[0], rtol=2e-7, atol=0)
    assert fingerprint == fingerprint_of(view)
    if view.numel() > 1:
        place = tuple(size - 1 for size in view.shape)
        view[place] = 1 - view[place] if dtype is not torch.bool else ~view[place]
        assert fingerprint != fingerprint_of(view)


@given(st.integers(0, 4999), st.integers(0, 4999), st.sampled_from([torch.float32, torch.int16]))
def test_a_fingerprint_tells_what_changed(one: int, other: int, dtype: torch.dtype) -> None:
    tensor = (torch.arange(5000) + 1).to(dtype)
    before = fingerprint_of(tensor)
    changed = tensor.clone()
    changed[one] = -changed[one]
    assert fingerprint_of(changed) != before
    changed = tensor.clone()
    changed[one] += 1
    changed[other] -= 1  # the sum stays
    assert (fingerprint_of(changed) == before) == (one == other)
    changed = tensor.clone()
    changed[[one, other]] = changed[[other, one]]
    assert (fingerprint_of(changed) == before) == (one == other)
    assert fingerprint_of(-tensor) != before
    assert fingerprint_of(tensor.clone()) == before
    assert fingerprint_of(tensor[:-1]) != before


def test_what_it_does_not_know_it_leaves_to_torch() -> None:
    for tensor in (
        torch.zeros(3, dtype=torch.complex64),
        torch.zeros(3).to(torch.float8_e4m3fn),
        torch.zeros(3, dtype=torch.uint16),
        torch.zeros((2, 0)),
        torch.zeros(3, dtype=torch.complex64).conj().imag,  # its memory has the other sign
    ):
        assert pass_over(tensor, True) is None
        assert fingerprint_of(tensor) is None


def test_what_does_not_fit_together_is_refused() -> None:
    tensor = torch.ones(6)
    plan = passes.plan_of(torch.Size((6,)))
    measured = loaded.compiled.measure
    for given_ in (
        (tensor.data_ptr(), 1, 5, None, None, plan),  # of six numbers
        (tensor.data_ptr(), 10, 6, None, None, None),  # no such type
        (tensor.data_ptr(), 1, 0, None, None, None),
        (tensor.data_ptr(), 1, 6, (2, 2), (2, 1), None),
    ):
        with pytest.raises(ValueError, match=r"numbers|type"):
            measured(*given_)
    with pytest.raises(ValueError, match="stride"):
        measured(tensor.data_ptr(), 1, 6, (2, 3), (1,), None)
    with pytest.raises(TypeError):
        measured(tensor.data_ptr(), 1, 6)


def test_threads_do_not_disturb_each_other() -> None:
    shapes = [(70_000,), (300, 301), (2, 64, 512), (9,)]
    given_ = [made(shape, torch.float32) + n for n in range(12) for shape in shapes]
    wanted = [pass_over(one, True) for one in given_]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda one: pass_over(one, True), given_ * 5)) == wanted * 5


def test_a_plan_outlives_what_is_kept_of_its_shape() -> None:
    tensor = torch.randn(70, 90)
    plan, wanted = passes.plan_of(tensor.shape), pass_over(tensor, True)
    passes.plan_of.cache_clear()
    passes._tables.cache_clear()
    gc.collect()
    given_ = (tensor.data_ptr(), 1, tensor.numel(), None, None, plan)
    others = [torch.rand(100_000) for _ in range(20)]  # which would take its memory
    assert loaded.compiled.measure(*given_) == wanted
    assert len(others) == 20


def test_rows_of_both_ways_keep_their_numbers() -> None:
    tensor, other = torch.randn(40), torch.randn(40)
    row = found(tensor)[2].tobytes()
    sketches = Sketches()
    with unseen():
        assert [sketches.append(row), sketches.add(other, None), sketches.append(row)] == [0, 1, 2]
    taken = sketches.take()
    assert taken[0].tobytes() == taken[2].tobytes() == row
    assert np.abs(taken[1]["numbers"] - sketch_of(other.numpy()).numbers).max() < 1e-5
    sketches.append(row)
    assert [one.tobytes() for one in sketches.take()] == [row]
    sketches.append(row)
    sketches.end_step()
    assert len(sketches.take()) == 0
    empty = rows_of(np.zeros((1, NUMBERS)), [0], [0])
    assert len(row) == empty.itemsize


FIELDS = ("Max", "Min", "Mean", "Norm")
# What measures, tells again and sketches, all of which must hold without it.
BOTH_WAYS = ("measured_again", "norms", "unseen_writes", "number_types", "measured_numbers")


def run_alone(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """A new interpreter, as whether the module is loaded is told by its environment."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )


@pytest.mark.repeated
def test_what_is_tested_with_it_holds_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSPROBE_COMPILED", "0")
    for name in tuple(os.environ):
        if name.startswith("PYTEST_"):
            monkeypatch.delenv(name)
    files = [f"tests/collector/test_{name}.py" for name in BOTH_WAYS]
    done = run_alone(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *files])
    assert done.returncode == 0, done.stdout[-3000:]


TRAINING = """
import hashlib, json, sys, threading, torch
from msprobe_collector import PrecisionDebugger
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(200, 300), torch.nn.GELU(), torch.nn.Linear(300, 20))
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
data = torch.randn(40, 200)
config = {"task": "statistics", "level": "mix", "dump_path": sys.argv[1],
          "statistics": {"summary_mode": "sketch", "flow": True}}
if sys.argv[2] != "plain":
    with open(sys.argv[1] + ".json", "w") as file:
        json.dump(config, file)
    debugger = PrecisionDebugger(config_path=sys.argv[1] + ".json")
for step in range(2):
    if sys.argv[2] != "plain":
        debugger.start(net)
    with torch.autocast("cpu", torch.bfloat16, enabled=step == 1):
        net(data).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if sys.argv[2] != "plain":
        debugger.stop()
        debugger.step()
if sys.argv[2] != "plain":
    from msprobe_collector.one_pass.passes import is_there
    assert is_there() == (sys.argv[2] == "1")
content = b"".join(p.detach().numpy().tobytes() for p in net.parameters())
print(hashlib.sha256(content).hexdigest())
"""


def test_dumps_with_and_without_it_agree_and_change_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests, dumps = set(), {}
    for way in ("plain", "1", "0"):
        monkeypatch.setenv("MSPROBE_COMPILED", way)
        done = run_alone(["-c", TRAINING, str(tmp_path / way), way])
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout)
        if way != "plain":
            dumps[way] = [read_dump(tmp_path / way / f"step{n}" / "rank") for n in range(2)]
    assert len(digests) == 1
    for one, other in zip(*dumps.values(), strict=True):
        assert list(one.data) == list(other.data)
        texts = [(dump.directory / "construct.json").read_bytes() for dump in (one, other)]
        assert texts[0] == texts[1]
        count = 0
        for mine, theirs in zip(tensors(one.data), tensors(other.data), strict=True):
            count += 1
            numbers = [[item[1].pop(key) for key in FIELDS] for item in (mine, theirs)]
            assert json.dumps(mine) == json.dumps(theirs)
            if None not in numbers[0]:
                scale = numbers[0][3] / math.sqrt(math.prod(mine[1]["shape"]))
                assert np.allclose(numbers[0], numbers[1], rtol=2e-6, atol=1e-6 * scale), mine
        assert count > 50
        assert (one.directory / NAME).exists()
        assert (other.directory / NAME).exists()
