"""Two monitored trainings on two ranks part where a cause was planted, and it is named."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.command.main import main
from msprobe_builder.facts.fact import fact
from msprobe_checks.monitor.compare import compare_monitors
from msprobe_checks.monitor.explain import verdict
from msprobe_collector import PrecisionDebugger
from tests.cases import tried_first
from tests.collector.models import VOCABULARY, Decoder
from tests.collector.processes import run_in_two

STEPS = 6


def train(rank: int, directory: Path, cause: str) -> None:
    """A llama in small on two ranks; the cause is planted from step 3 on."""
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(1 if cause == "seed" else 0)
    model = Decoder()
    model.eval()  # no dropout ...
    for module in model.modules():
        module.training = True
        if type(module).__name__ == "Attention":
            module.training = False
    wrapped = DistributedDataParallel(model)
    config = {
        "task": "statistics",
        "level": "L0",
        "step": [],
        "dump_path": str(directory),
        "monitor": {},
    }
    path = directory.with_suffix(f".{rank}.json")
    path.write_text(json.dumps(config))
    debugger = PrecisionDebugger(str(path))
    debugger.monitor(wrapped)
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        words = torch.randint(0, VOCABULARY, (2, 6), generator=generator)
        is_late = step >= 3
        if cause == "data" and is_late and rank == 1:
            words = words % 7
        if cause == "rate" and is_late:
            optimizer.param_groups[0]["lr"] = 2e-2
        if cause == "betas" and is_late:
            optimizer.param_groups[0]["betas"] = (0.5, 0.999)
        if cause == "forward" and step == 3:
            model.layers[0].register_forward_hook(lambda _module, _given, output: 1.005 * output)
        if step == 3:
            debugger.start(wrapped)
        loss = nn.functional.cross_entropy(wrapped(words).flatten(0, 1), words.flatten())
        factor = {"loss": 2.0, "forward": 1.05}.get(cause, 1.0) if is_late else 1.0
        (loss * factor).backward()
        debugger.stop()
        if cause == "gradient" and is_late:
            for parameter in wrapped.parameters():
                assert parameter.grad is not None
                parameter.grad.mul_(4)
        if cause != "skip" or step != 3:
            optimizer.step()
            optimizer.zero_grad()
        debugger.step()
    PrecisionDebugger.close()


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("reference") / "dump"
    run_in_two(train, directory, "")
    return directory


CAUSES = {
    "rate": "step 3, rank 0: the learning rate of group0 is 0.02 against 0.001",
    "gradient": (
        "step 3, rank 0: the gradient before the update of embed.weight has 4 times the "
        f"other's norm, and {len(list(Decoder().parameters())) - 1} more gradients before the "
        "update depart at this step, all by that factor; weights, activations and gradients "
        "before reduction of this step agree; "
        "look at what happens between backward and the update"
    ),
    "loss": "look at the loss and the backward pass",
    "data": "step 3, rank 1: the activation of embed",
    "seed": "they begin with different weights",
    "forward": "before it all agrees within 0.01, but differs already: at step 3 the activation",
    "skip": "step 3, rank 0: 2 times as many values as in the other run pass the model before",
    "betas": "step 3, rank 0: the optimizer state of embed.weight:exp_avg",
}


@pytest.mark.parametrize("cause", tried_first(CAUSES, 2))
def test_a_planted_cause_is_named(tmp_path: Path, reference: Path, cause: str) -> None:
    run_in_two(train, tmp_path / "dump", cause)
    assert CAUSES[cause] in verdict(compare_monitors(tmp_path / "dump", reference))


def test_equal_trainings_agree(reference: Path) -> None:
    comparison = compare_monitors(reference, reference)
    assert not comparison.departures
    assert comparison.earliest is None
    assert [pair.rank for pair in comparison.ranks] == [0, 1]
    assert verdict(comparison) == "the runs agree within 0.01 at steps 0 to 5 (1,656 rows)."


def test_the_command_links_to_the_graph_of_the_step(
    tmp_path: Path, reference: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "dump"
    shutil.copytree(reference, other)
    table = other / "monitor" / "rank1" / "values_step0.csv"
    lines = table.read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("3,activation,layers.1.mlp,"))
    cells = lines[place].split(",")
    lines[place] = ",".join([*cells[:3], str(2 * float(cells[3])), *cells[4:]])
    table.write_text("\n".join(lines) + "\n")
    compare = tmp_path / "compare.json"
    compare.write_text(json.dumps({"npu_path": str(other / "step3")}))
    logs = tmp_path / "logs"
    # The dump of one step is step 0 of its own file, that of several keeps its number.
    compare.write_text(json.dumps({"npu_path": str(other)}))
    assert main(["-i", str(compare), "-o", str(logs), "--output-name", "run"]) in (0, 3)
    capsys.readouterr()
    output = tmp_path / "out.json"
    arguments = ["monitor", str(other), str(reference), "--graphs", str(logs), "-o", str(output)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "step 3, rank 1: the activation of layers.1.mlp has 2 times" in printed
    written = json.loads(output.read_text())
    assert written["verdict"] in printed
    assert written["facts"][0]["code"] == "monitor.part_means"
    link = written["links"][0]
    assert link in printed
    assert link == (
        "#graph_ascend&p.graph_ascend.file=run.vis.db&p.graph_ascend.step=3&p.graph_ascend.rank=1"
        "&p.graph_ascend.side=npu"
        "&p.graph_ascend.node=Module.module.layers.1.mlp.GatedMLP.forward.0"
    )
    assert main([*arguments[:3], "--graphs", str(tmp_path / "dump"), "--language", "zh"]) == 0
    printed = capsys.readouterr().out
    assert "结论      两次运行在 step 3、rank 1 处分开：layers.1.mlp 的激活值的范数是" in printed
    assert f"图        {tmp_path / 'dump'} 之下没有含 step 3、rank 1 的 .vis.db。" in printed


def test_a_resumed_training_replaces_what_it_repeats(tmp_path: Path, reference: Path) -> None:
    other = tmp_path / "dump"
    shutil.copytree(reference, other)
    for rank in range(2):
        table = other / "monitor" / f"rank{rank}" / "values_step0.csv"
        lines = table.read_text().splitlines()
        again = [lines[0], *(line for line in lines[1:] if int(line.partition(",")[0]) >= 4)]
        table.with_name("values_step4.csv").write_text("\n".join(again) + "\n")
        spoilt = [line.replace(",learning_rate,", ",weight,") for line in lines]
        kept = [
            line if line[0] in "s0123" else bad for line, bad in zip(lines, spoilt, strict=True)
        ]
        # and the last line is cut off, as a killed training leaves it
        table.write_text("\n".join(kept) + "\n4,gradient,embed.wei")
    assert not compare_monitors(other, reference).departures


def test_what_cannot_be_compared_is_said(
    tmp_path: Path, reference: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="holds no monitor"):
        compare_monitors(tmp_path, reference)
    other = tmp_path / "dump"
    shutil.copytree(reference, other)
    shutil.rmtree(other / "monitor" / "rank1")
    assert compare_monitors(other, reference).notes == (fact("monitor.one_has_rank", ranks=[1]),)
    table = other / "monitor" / "rank0" / "values_step0.csv"
    table.write_text(table.read_text().replace("activation", "actuation", 1))
    with pytest.raises(BuildError, match=r"values_step0\.csv is damaged in row"):
        compare_monitors(other, reference)
    head, _, rows = (reference / "monitor" / "rank0" / table.name).read_text().partition("\n")
    table.write_text(f"\ufeff{head}\n{rows}", encoding="utf-8")  # as spreadsheets save it
    assert not compare_monitors(other, reference).departures
    table.write_text(f"{head}\n")  # of a training that has just begun
    with pytest.raises(UsageError, match="no step and name in common"):
        compare_monitors(other, reference)
    table.write_text("a,b\n1,2\n")
    with pytest.raises(BuildError, match="no record of a monitor"):
        compare_monitors(other, reference)
    assert main(["monitor", str(tmp_path), str(reference)]) == 2
    assert "holds no monitor" in capsys.readouterr().err
