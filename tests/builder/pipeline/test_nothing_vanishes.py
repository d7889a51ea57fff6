"""Small and extreme dumps from end to end: every call is somewhere, every finding is right."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder import BuildConfig, BuildOptions, build
from tests.builder.integrity import check, check_names
from tests.builder.small_dumps import Record, forward, tensor, write_dump

M, MB = "Module.fc.Linear.forward.0", "Module.fc.Linear.backward.0"
CONSTRUCT = {
    "Tensor.cpu.0.forward": None,
    "Torch.ones.0.forward": None,
    "Functional.linear.0.forward": M,
    M: None,
    "Torch.empty.0.forward": None,
    "Functional.linear.0.backward": MB,
    MB: None,
}


def small_model(scale: float = 1.0, linear_max: float = 2.0) -> dict[str, Record]:
    """The records of CONSTRUCT and one gradient; the outputs are ``scale`` times as large."""

    def output(high: float = 2.0) -> Record:
        return tensor(3.0 * scale, high=high * scale, low=-2.0 * scale, mean=0.5 * scale)

    calls = {name: forward([tensor()], [output()]) for name in CONSTRUCT}
    calls["Functional.linear.0.forward"] = forward([tensor()], [output(linear_max)])
    return {**calls, "Module.fc.Linear.parameters_grad": {"weight": [tensor()]}}


def rows(path: Path, query: str, *values: Any) -> list[Any]:
    connection = sqlite3.connect(path)
    found = connection.execute(query, values).fetchall()
    connection.close()
    return found


def test_a_small_model(tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "dump", small_model(), CONSTRUCT)
    path = build(BuildConfig(dump), tmp_path).path
    children = "SELECT name FROM node_view WHERE parent = ? ORDER BY seq"
    top = [name for (name,) in rows(path, children, "DefaultModel")]
    assert top == ["Apis_Between_Modules.0", M, "Torch.empty.0.forward", MB]
    assert rows(path, children, MB)[-1] == ("Module.fc.Linear.parameters_grad",)
    assert rows(path, "SELECT count(*) FROM node_view") == [(10,)]


def test_the_error_of_outputs_that_are_a_factor_apart(tmp_path: Path) -> None:
    npu = write_dump(tmp_path / "npu", small_model(), CONSTRUCT)
    bench = write_dump(tmp_path / "bench", small_model(1.3), CONSTRUCT)
    path = build(BuildConfig(npu, bench), tmp_path / "out").path
    error = dict(rows(path, "SELECT name, error FROM node_view WHERE side = 'npu'"))
    assert error["Functional.linear.0.forward"] == pytest.approx(0.3 / 1.3)
    assert error["Apis_Between_Modules.0"] == pytest.approx(0.3 / 1.3)
    assert error["Torch.empty.0.forward"] == 0
    assert error["DefaultModel"] is None


def test_an_output_of_nan(tmp_path: Path) -> None:
    npu = write_dump(tmp_path / "npu", small_model(linear_max=math.nan), CONSTRUCT)
    bench = write_dump(tmp_path / "bench", small_model(), CONSTRUCT)
    config = BuildConfig(npu, bench, options=BuildOptions(overflow_check=True))
    path = build(config, tmp_path / "out").path
    query = "SELECT error, overflow FROM node_view WHERE side = 'npu' AND name = ?"
    assert rows(path, query, "Functional.linear.0.forward") == [(1.0, "critical")]


def test_structures_of_equal_models(tmp_path: Path) -> None:
    npu = write_dump(tmp_path / "npu", {}, CONSTRUCT, task="structure")
    result = build(BuildConfig(npu, npu), tmp_path / "out")
    assert result.matched == result.npu_nodes == result.bench_nodes == 9
    assert rows(result.path, "SELECT count(*) FROM node_view WHERE error IS NOT NULL") == [(0,)]


def chain(levels: int) -> dict[str, str | None]:
    names = [f"Module.m{level}.M.forward.0" for level in range(levels)]
    return dict(zip(names, [None, *names], strict=False))


def ring(calls: int) -> dict[str, str | None]:
    return {f"Torch.r.{i}.forward": f"Torch.r.{(i + 1) % calls}.forward" for i in range(calls)}


LONG = "Module." + "x" * 100_000 + ".M.forward.0"
DEEP = "Module." + "a." * 50_000 + "M."
RECORD = forward([tensor()], [tensor()])


@pytest.mark.parametrize(
    ("construct", "data", "codes"),
    [
        (chain(1_500), {}, {}),
        pytest.param(chain(100_000), {}, {}, marks=pytest.mark.slow),
        (ring(20_000), {}, {"cycle": 1}),
        ({"Torch.a.0.forward": "Torch.a.0.forward"}, {}, {"cycle": 1}),
        ({f"Torch.a.{i}.forward": f"Module.p{i}.P.forward.0" for i in range(5_000)}, {},
         {"parent_not_recorded": 5_000}),
        ({M: None}, {f"Torch.a.{i}.forward": RECORD for i in range(5_000)},
         {"call_not_in_construct": 5_000, "call_without_record": 1}),
        ({M: None}, {f"Module.m{i}.M.parameters_grad": {"w": [tensor()]} for i in range(5_000)},
         {"gradient_without_backward": 5_000, "call_without_record": 1}),
        ({LONG: None}, {LONG: RECORD}, {}),
        ({f"{DEEP}forward.0": None}, {f"{DEEP}parameters_grad": {"w": [tensor()]}},
         {"gradient_without_backward": 1, "call_without_record": 1}),
        ({M: None}, {M: RECORD, "DefaultModel": RECORD, "Torch.a.0.forward": 5},
         {"malformed_record": 2}),
        ({M: None}, {M: forward([[[[]]], {"a": {}}], [tensor()]), "": RECORD, "a\0b": RECORD},
         {"call_not_in_construct": 2}),
    ],
    ids=[
        "1,500 levels", "100,000 levels", "a long cycle", "inside itself", "orphans",
        "without entry", "without backward", "a long name", "a deep name", "malformed", "empty",
    ],
)  # fmt: skip
def test_extremes(
    tmp_path: Path, construct: dict[str, Any], data: dict[str, Any], codes: dict[str, int]
) -> None:
    dump = write_dump(tmp_path / "dump", data, construct)
    result = build(BuildConfig(dump), tmp_path)
    connection = check(result.path)
    check_names(connection, "npu", construct, data)
    connection.close()
    expected = codes if data else {"no_record_at_all": 1} | codes
    assert {one.code: one.count for one in result.diagnostics} == expected


@pytest.mark.parametrize("levels", [300, 900, 5_000])
def test_deeply_nested_values(tmp_path: Path, levels: int) -> None:
    """Shown, counted or refused in one sentence, never a crash."""
    dump = write_dump(tmp_path / "dump", {"Torch.a.0.forward": RECORD})
    nested = "[" * levels + "1" + "]" * levels
    for value in (nested, f'{{"type": "x", "value": {nested}}}'):
        text = f'{{"task": "statistics", "data": {{"Torch.a.0.forward": {{"output": [{value}]}}}}}}'
        (dump / "dump.json").write_text(text)
        try:
            result = build(BuildConfig(dump), tmp_path / "out", name=f"{len(text)}.vis.db")
        except Exception as error:  # whatever it is, it must be the one for users
            problem: str | None = f"{type(error).__name__}: {error}"
        else:
            problem = None
            check(result.path).close()
        assert problem is None or problem.startswith("BuildError: ")
        assert problem is None or levels > 900  # how deep is read depends on the Python
