"""Statistics of what two ranks give to each other and get, by the line that calls it."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from msprobe_checks.monitor.compare import compare_monitors
from msprobe_checks.monitor.explain import summary_lines
from msprobe_collector import PrecisionDebugger
from msprobe_collector.config.settings import parse_config
from msprobe_collector.errors import CollectorError
from tests.collector.processes import run_in_two
from tests.collector.test_monitor import read

STEPS = 3


def config(directory: Path, record: object) -> str:
    content = {
        "task": "monitor",
        "dump_path": str(directory / "dump"),
        "monitor": {"record": record, "formats": ["csv"]},
    }
    path = directory / f"config{id(content)}.json"
    path.write_text(json.dumps(content))
    return str(path)


def values(rank: int, step: int) -> torch.Tensor:
    return torch.arange(4.0) + 10 * rank + step


def train(rank: int, directory: Path, record: object, wrong: bool) -> None:
    functions = dist.all_reduce.__code__, dist.Work.wait
    debugger = PrecisionDebugger(config(directory, record))
    model = nn.Linear(4, 1)
    debugger.monitor(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        x = values(rank, step)
        dist.all_reduce(x)
        gathered = [torch.zeros(4), torch.zeros(4)]
        work = dist.all_gather(gathered, values(rank, step), async_op=True)
        work.wait()
        if rank:
            dist.send(values(rank, step) * (2 if wrong and step == 2 else 1), 0)
        else:
            dist.recv(torch.zeros(4), 1)
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    PrecisionDebugger.close()
    assert (dist.all_reduce.__code__, dist.Work.wait) == functions


def recorded(directory: Path, record: object, wrong: bool = False) -> Path:
    directory.mkdir()
    run_in_two(train, directory, record, wrong)
    return directory / "dump"


def test_what_is_given_and_got_has_its_numbers(tmp_path: Path) -> None:
    dump = recorded(tmp_path / "run", ["communication"])
    for rank in range(2):
        rows = read(dump.parent, rank)
        assert {kind for _, kind, _ in rows} == {"communication"}
        found = {(step, *name.split()[::2]): row["norm"] for (step, _, name), row in rows.items()}
        assert all("test_monitor_communication.py:" in name for _, _, name in rows)
        for step in range(STEPS):
            own, other = (values(one, step) for one in (rank, 1 - rank))
            assert found[step, "all_reduce", "given"] == pytest.approx(float(own.norm()))
            assert found[step, "all_reduce", "got"] == pytest.approx(float((own + other).norm()))
            both = float(torch.cat([own, other]).norm())
            assert found[step, "all_gather", "given"] == pytest.approx(float(own.norm()))
            assert found[step, "all_gather", "got"] == pytest.approx(both)
            if rank:
                assert found[step, "send", "given"] == pytest.approx(float(own.norm()))
                assert (step, "send", "got") not in found
            else:
                assert found[step, "recv", "got"] == pytest.approx(float(other.norm()))
                assert (step, "recv", "given") not in found


def test_patterns_choose_functions(tmp_path: Path) -> None:
    dump = recorded(tmp_path / "run", {"communication": ["all_reduce *"]})
    names = {name.split()[0] for _, _, name in read(dump.parent)}
    assert names == {"all_reduce"}


def test_what_a_rank_sends_otherwise_is_named(tmp_path: Path) -> None:
    record = ["communication"]
    runs = recorded(tmp_path / "a", record, wrong=True), recorded(tmp_path / "b", record)
    said = " ".join("\n".join(summary_lines(compare_monitors(*runs))).split())
    assert "part at step 2" in said
    assert "given has 2 times" in said or "got has 2 times" in said
    assert "look at what this call is given on every rank" in said


def test_it_is_recorded_where_it_is_asked_for_alone() -> None:
    usual = parse_config({"dump_path": "d", "task": "monitor"}).monitor
    assert usual is not None
    assert not usual.wants("communication", "all_reduce a.py:1 given")
    asked = {"record": {"communication": ["*"]}}
    chosen = parse_config({"dump_path": "d", "task": "monitor", "monitor": asked}).monitor
    assert chosen is not None
    assert chosen.wants("communication", "all_reduce a.py:1 given")
    with pytest.raises(CollectorError, match="communication"):
        parse_config({"dump_path": "d", "task": "monitor", "monitor": {"record": ["links"]}})
