"""Commands that the documents of msprobe show do what they say there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msprobe_builder.command.main import main
from tests.builder.small_dumps import forward, tensor, write_dump


@pytest.fixture(autouse=True)
def documented_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """compare.json beside the two dumps it names, as the documents have it."""
    for side in ("npu_dump", "bench_dump"):
        write_dump(tmp_path / side, {"Torch.add.0.forward": forward([tensor()], [tensor()])})
    paths = {"npu_path": "./npu_dump", "bench_path": "./bench_dump", "is_print_compare_log": True}
    (tmp_path / "compare.json").write_text(json.dumps(paths), encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("framework", ["-f pytorch", "--framework pytorch", "-f mindspore"])
def test_graph_builds(framework: str) -> None:
    options = "-i ./compare.json -o ./output -oc -f -lm"  # the second -f is fuzzy matching
    assert main(f"{framework} graph {options}".split()) == 0
    assert len(list(Path("output").glob("compare_*.vis.db"))) == 1


def test_compare_writes_the_table() -> None:
    command = "-f pytorch compare -i compare.json -o ./output --format csv -s -c"
    assert main(command.split()) == 0
    [table] = Path("output").glob("compare_result_*.csv")
    assert "Torch.add.0.forward.input.0" in table.read_text(encoding="utf-8-sig")


def test_config_check_collects_and_compares(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.sh").write_text("torchrun train.py --seed 1\n", encoding="utf-8")
    assert main("-f pytorch config_check -d run.sh -o bench.zip".split()) == 0
    Path("run.sh").write_text("torchrun train.py --seed 2\n", encoding="utf-8")
    assert main("-f pytorch config_check -o cmp.zip --dump run.sh".split()) == 0
    assert main("-f pytorch config_check -c bench.zip cmp.zip -o result".split()) == 0
    assert "seed is '2' against '1'" in capsys.readouterr().out


def test_config_check_of_directories_is_of_checkpoints(capsys: pytest.CaptureFixture[str]) -> None:
    command = "--framework pytorch config_check --compare path1 path2 -o output_path.json"
    assert main(command.split()) == 2
    assert "path1 does not exist; give the file or directory of a checkpoint." in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("-f jax graph", "-f jax is no framework; write pytorch or mindspore there."),
        ("-f pytorch", "A command is missing after -f; write graph, compare or config_check."),
        ("-f pytorch draw", "'draw' is none of the commands known after -f"),
        ("-f pytorch parse", "'parse' is not done here. It converts files of kernels"),
        ("-f pytorch config_check", "config_check needs -d to collect, or -c"),
        ("-f pytorch run_overflow_check -api_info x", "x holds no dump.json"),
        ("reprt x.vis.db", "'reprt' is no command; did you mean 'report'?"),
        ("compare.json", "'compare.json' is no command; to build, give -i compare.json -o out."),
    ],
)
def test_other_words_are_refused_in_a_sentence(
    command: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1
