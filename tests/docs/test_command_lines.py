"""Command lines of msprobe 26.2.0 and 8.3.3 run as they stand, with our name or the alias."""

from __future__ import annotations

import csv
import json
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch

from msprobe_builder.command.main import main
from msprobe_collector import PrecisionDebugger
from tests.builder.small_dumps import Record, forward, tensor, write_dump

OK = tensor()
VERL = """INFO starting
(TaskRunner pid=7) {'actor_rollout_ref': {'actor': {'optim': {'lr': %s,
(TaskRunner pid=7)                                            'betas': [0.9, 0.999]}},
(TaskRunner pid=7)                        'model': {'path': None}},
(TaskRunner pid=7)  'trainer': {'total_epochs': 3}}
step 0
"""
SLIME = """------------------------ arguments ------------------------
  lr ................................ %s
  micro_batch_size .................. 4
-------------------- end of arguments ---------------------
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Dumps of two ranks on both sides, where the second differs; logs; a dump with tensors."""
    other = tensor(9.0, high=3.0, low=-2.5, mean=0.7)
    for side, result in (("npu", other), ("bench", OK)):
        for rank in range(2):
            data = {
                "Torch.add.0.forward": forward([OK], [result if rank else OK]),
                "Torch.mul.0.forward": forward([OK], [OK]),
            }
            write_dump(tmp_path / side / "step0" / f"rank{rank}", data)
    for name, rate in (("npu", "2e-06"), ("bench", "1e-06")):
        (tmp_path / f"verl_{name}.log").write_text(VERL % rate)
        (tmp_path / f"slime_{name}.log").write_text(SLIME % rate)
    (tmp_path / "must.yaml").write_text("actor_rollout_ref:\n  actor:\n    optim: {lr: 1.0e-06}\n")
    (tmp_path / "run.sh").write_text("torchrun train.py --seed 1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(line: str) -> int:
    return main(shlex.split(line)[1:])


def one(pattern: str) -> Path:
    [path] = Path().glob(pattern)
    return path


def test_graph_visualize_compares(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("msprobe graph_visualize -tp npu/step0 -gp bench/step0 -o out -oc -fm -lm") == 0
    assert one("out/compare_*.vis.db").is_file()
    assert "rank 1: Torch.add.0.forward" in " ".join(capsys.readouterr().out.split())


def test_graph_visualize_builds_one_side() -> None:
    assert run("msprobe graph_visualize -tp npu -o out -progress_log -tensor_log") == 0
    assert one("out/build_*.vis.db").is_file()


def test_graph_visualize_merges_ranks(dumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tp, whole = dumps / "megatron_tp2pp1" / "step0", dumps / "megatron_tp1pp1" / "step0"
    line = f"msprobe graph_visualize -tp {tp} -gp {whole} -o out --rank_size 2 1 --tp 2 1 --pp 1"
    assert run(line) == 0
    assert one("out/compare_*.vis.db").is_file()
    assert "clean" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "suffix", "tables"),
    [
        ("msprobe compare -tp npu/step0 -gp bench/step0 -o out", "csv", 2),
        ("msprobe compare -tp npu/step0 -gp bench/step0 -o out --rank 1", "csv", 1),
        ("msprobe compare -tp npu/step0 -gp bench/step0 -o out --rank 0-1 --xlsx", "xlsx", 2),
        ("msprobe compare -tp npu/step0/rank1 -gp bench/step0/rank1 -o out -fm", "csv", 1),
        (
            "msprobe compare -tp npu/step0/rank1/dump.json -gp bench/step0/rank1/dump.json -o out",
            *("csv", 1),
        ),
        ("msprobe compare -tp npu/step0 -gp bench/step0 -o out --consistent_check", "csv", 2),
    ],
)
def test_compare_writes_tables(line: str, suffix: str, tables: int) -> None:
    assert run(line) == 0
    assert len(list(Path("out").glob(f"compare_result_*.{suffix}"))) == tables


def test_compare_and_analyse_says_where_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("msprobe compare -tp npu/step0 -gp bench/step0 -o out -da") == 0
    assert "rank 1: Torch.add.0.forward" in " ".join(capsys.readouterr().out.split())


def test_merge_result_joins_ranks() -> None:
    assert run("msprobe graph_visualize -tp npu/step0 -gp bench/step0 -o out") == 0
    Path("merge.yaml").write_text("api:\n- Torch.add\ncompare_index:\n- L2norm diff\n")
    assert run("msprobe merge_result -i out -o merged -config merge.yaml") == 0
    assert one("merged/multi_ranks_compare_merge_*.xlsx").is_file()


@pytest.mark.parametrize(
    "line",
    [
        "msprobe overflow_check -i npu/step0 -o out",
        "msprobe -f pytorch nan_analyze -i npu/step0 -o out",
    ],
)
@pytest.mark.parametrize("level", ["mix", "L1"])
def test_overflow_check_names_rank_and_call(
    line: str, level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tensor(float("nan"), high=float("nan"), low=float("nan"), mean=float("nan"))
    data: dict[str, Record] = {"Torch.log.0.forward": forward([tensor(low=-1.0)], [bad])}
    write_dump(Path("npu/step0/rank1"), data)
    if level == "L1":  # which knows no hierarchy
        for path in Path("npu/step0").rglob("construct.json"):
            path.write_text("{}", "utf-8")
    assert run(line) == 0
    assert "begins on rank 1 with Torch.log.0.forward" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("collect", "compare"),
    [
        ("config_check -d run.sh -o {}.zip", "config_check -c first.zip second.zip -o result"),
        (
            "-f pytorch config_check -d run.sh must.yaml -o {}",
            "-f pytorch config_check -c first second -o r",
        ),
        (
            "-f mindspore config_check -d run.sh must.yaml -o {}",
            "-f mindspore config_check -c first second -o r",
        ),
        (
            "config_check --dump run.sh -o {}",
            "--framework pytorch config_check --compare first second -o r.json",
        ),
    ],
)
def test_config_check_collects_and_compares(
    collect: str, compare: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The documents call the packs by any name, with and without an ending."""
    assert run(f"msprobe {collect.format('first')}") == 0
    Path("run.sh").write_text("torchrun train.py --seed 2\n")
    assert run(f"msprobe {collect.format('second')}") == 0
    assert run(f"msprobe {compare}") == 0
    assert "seed is '2' against '1'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "msprobe config_check -vc verl_npu.log verl_bench.log -o result",
            "actor_rollout_ref.actor.optim.lr is 2e-06 against 1e-06",
        ),
        ("msprobe config_check -sc slime_npu.log slime_bench.log -o r", "lr is '2e-06' against"),
        (
            "msprobe config_check -vv must.yaml verl_npu.log -o result",
            "actor_rollout_ref.actor.optim.lr is 2e-06 against 1e-06",
        ),
    ],
)
def test_config_check_reads_logs(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line) == 0
    words = capsys.readouterr().out
    assert said in words
    assert "total_epochs" not in words


@pytest.fixture
def recorded() -> Path:
    debugger = PrecisionDebugger(dump_path="recorded", task="tensor", level="mix")
    layer = torch.nn.Linear(4, 3)
    debugger.start(layer)
    layer(torch.ones(2, 4)).sum().backward()
    debugger.stop()
    debugger.step()
    debugger.close()
    return one("recorded/step0/rank*/dump.json")


@pytest.mark.parametrize("command", ["acc_check", "multi_acc_check -n 2", "-f pytorch run_ut"])
def test_acc_check_runs_calls_again(recorded: Path, command: str) -> None:
    assert run(f"msprobe {command} -api_info {recorded} -o checked") == 0
    with Path("checked/operator_check.csv").open(encoding="utf-8-sig") as file:
        found = {row["name"]: row["status"] for row in csv.DictReader(file)}
    assert found["Functional.linear.0"] == "passed"


def test_api_precision_compare_holds_two_tables_together(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"msprobe acc_check -api_info {recorded} -o a") == 0
    text = Path("a/operator_check.csv").read_text(encoding="utf-8-sig")
    Path("b").mkdir()
    Path("b/operator_check.csv").write_text(
        text.replace("linear.0,forward,passed", "linear.0,forward,failed")
    )
    line = "msprobe api_precision_compare -npu a/operator_check.csv -gpu b/operator_check.csv -o j"
    assert run(line) == 0
    said = capsys.readouterr().out
    assert "Functional.linear.0.forward: wrong on the second device alone" in said
    assert "1 wrong" in said
    assert Path("j/operator_join.csv").is_file()


def test_op_generate_writes_a_script_that_runs(recorded: Path) -> None:
    content = {"dump_json_path": str(recorded), "api_name": "Functional.linear.0"}
    Path("op.json").write_text(json.dumps(content))
    assert run("msprobe -f pytorch op_generate -i op.json -o scripts") == 0
    command = [sys.executable, "scripts/Functional.linear.0.py", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "output 0 (torch.float32)" in done.stdout
    assert "gradient 1 (torch.float32)" in done.stdout


def test_run_overflow_check(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"msprobe -f pytorch run_overflow_check -api_info {recorded}") == 0
    assert "No call turns finite operands into NaN" in capsys.readouterr().out


def test_data2db_writes_trends() -> None:
    assert run("msprobe data2db --data npu --db trends --format dump") == 0
    assert one("trends/*.trend.db").is_file()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("msprobe parse -d x -t npy", "Ascend devices"),
        ("msprobe offline_dump --model_path a.om", "inference engine"),
        ("msprobe install_deps -m x", "It installs software for Ascend devices"),
        ("msprobe -f mindspore code_mapping --ir x --dump_data y", "compiler's graphs"),
        ("msprobe compare -m atb -tp a -gp b", "of Ascend's inference engines"),
        ("msprobe compare -tp a", "compare needs -gp"),
        ("msprobe compare -tp a -gp b --rank one", "no list of numbers"),
        ("msprobe graph_visualize", "required: -tp"),
        ("msprobe graph_visualize -tp a --file_type json", "is not written"),
        ("msprobe graph_visualize -tp a -gp b --rank_size 1 2 3", "one value for each of 2"),
        ("msprobe merge_result -i npu -o out -config x", "holds 0 .vis.db"),
        ("msprobe config_check -vv verl_npu.log", "needs two files"),
        ("msprobe config_check -vc run.sh must.yaml", "is no zip file"),
        ("msprobe acc_check -api_info x -csv_path y", "goes on from where it was stopped"),
        ("msprobe acc_check", "required: -api_info"),
        ("msprobe api_precision_compare -npu run.sh -gpu run.sh", "is no table of"),
        ("msprobe -f pytorch op_generate -i must.yaml", "lacks dump_json_path or api_name"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line) in (1, 2)
    captured = capsys.readouterr()
    assert said in captured.err
    assert len(captured.err.splitlines()) == 1
    assert not captured.out


def alias(*words: str) -> tuple[int, Path]:
    return main(["alias", *words]), Path(sysconfig.get_path("scripts")) / "msprobe"


def test_the_alias_is_there_when_asked_for_alone() -> None:
    path = Path(sysconfig.get_path("scripts")) / "msprobe"
    if path.exists():
        pytest.skip("another msprobe is installed here")
    try:
        assert alias()[0] == 0
        assert os.access(path, os.X_OK)
        command = [str(path), *shlex.split("graph_visualize -tp npu/step0 -gp bench/step0 -o out")]
        subprocess.run(command, check=True, capture_output=True)
        assert one("out/compare_*.vis.db").is_file()
    finally:
        assert alias("--remove")[0] == 0
    assert not path.exists()


def test_a_program_of_that_name_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    (tmp_path / "msprobe").write_text("#!/bin/sh\n")
    for words in ((), ("--remove",)):
        assert alias(*words)[0] == 1
        assert "is another program" in capsys.readouterr().err
    assert (tmp_path / "msprobe").read_text() == "#!/bin/sh\n"
