"""The monitor records what the training computes, changes nothing and leaves nothing behind."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import csv
import json
import logging
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from msprobe_collector import CollectorError, PrecisionDebugger
from tests.collector.models import VOCABULARY, Decoder
from tests.collector.test_measured_numbers import expected

STEPS = 5
Rows = dict[tuple[int, str, str], dict[str, float]]
Change = Callable[[int, nn.Module, torch.optim.Optimizer], None]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    if PrecisionDebugger._current is not None:
        PrecisionDebugger.close()


def configure(directory: Path, **section: Any) -> PrecisionDebugger:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "config.json"
    path.write_text(json.dumps({"dump_path": str(directory / "dump"), "monitor": section}))
    return PrecisionDebugger(str(path))


def train(
    model: nn.Module, change: Change = lambda *_: None, steps: int = STEPS, micro: int = 1
) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(3)
    for step in range(steps):
        for _ in range(micro):
            words = torch.randint(0, VOCABULARY, (2, 6), generator=generator)
            loss = nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
            loss.backward()
        change(step, model, optimizer)
        optimizer.step()
        optimizer.zero_grad()


def decoder(seed: int = 0) -> Decoder:
    torch.manual_seed(seed)
    return Decoder()


def read(directory: Path, rank: int = 0) -> Rows:
    found: Rows = {}
    for path in sorted((directory / "dump" / "monitor" / f"rank{rank}").glob("values_*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                key = (int(row.pop("step")), row.pop("kind"), row.pop("name"))
                assert key not in found
                found[key] = {name: float(value) for name, value in row.items()}
    return found


def test_the_numbers_are_those_of_the_training(tmp_path: Path) -> None:
    model = decoder()
    debugger = configure(tmp_path)
    debugger.monitor(model)
    seen: dict[tuple[int, str, str], dict[str, float]] = {}
    outputs: list[torch.Tensor] = []
    mlp = model.get_submodule("layers.1.mlp")
    mlp.register_forward_hook(lambda *given: outputs.append(given[2].clone()))

    def look(step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            seen[(step, "weight", name)] = expected(parameter)
            seen[(step, "local_gradient", name)] = expected(parameter.grad)
            parameter.grad.mul_(0.5)  # as clipping would
            seen[(step, "gradient", name)] = expected(parameter.grad)
            state = optimizer.state[parameter]
            if state:  # of the step before
                seen[(step - 1, "optimizer_state", f"{name}:exp_avg")] = expected(state["exp_avg"])

    train(model, look)
    PrecisionDebugger.close()
    for step, output in enumerate(outputs):
        seen[(step, "activation", "layers.1.mlp")] = expected(output)
        seen[(step, "learning_rate", "group0")] = expected(torch.tensor([0.01]))
    found = read(tmp_path)
    for key, wanted in seen.items():
        assert found[key] == pytest.approx(wanted, rel=1e-5, abs=1e-7), key
    assert {step for step, _, _ in found} == set(range(STEPS))
    assert ("activation", "") in {(kind, name) for _, kind, name in found}


def test_micro_batches_are_one_step(tmp_path: Path) -> None:
    model = decoder()
    debugger = configure(tmp_path)
    debugger.monitor(model)
    outputs: list[torch.Tensor] = []
    model.embed.register_forward_hook(lambda *given: outputs.append(given[2].clone()))
    gradients: list[torch.Tensor] = []
    train(
        model,
        lambda _step, model, _: gradients.append(model.head.weight.grad.clone()),  # type: ignore[union-attr, operator]
        steps=2,
        micro=3,
    )
    PrecisionDebugger.close()
    found = read(tmp_path)
    for step in range(2):
        whole = torch.cat([one.flatten() for one in outputs[3 * step : 3 * step + 3]])
        assert found[(step, "activation", "embed")] == pytest.approx(expected(whole), rel=1e-5)
        wanted = pytest.approx(expected(gradients[step]), rel=1e-5, abs=1e-7)
        assert found[(step, "local_gradient", "head.weight")] == wanted
        assert found[(step, "gradient", "head.weight")] == wanted


def test_training_is_the_same_to_the_last_bit_and_nothing_stays(tmp_path: Path) -> None:
    from torch.optim import optimizer as of_torch

    plain = decoder()
    train(plain)
    random = torch.get_rng_state()
    followed = decoder()
    debugger = configure(tmp_path)
    debugger.monitor(followed)
    train(followed)
    assert torch.equal(torch.get_rng_state(), random)
    PrecisionDebugger.close()
    for one, other in zip(plain.parameters(), followed.parameters(), strict=True):
        assert torch.equal(one, other)
    for module in followed.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    for parameter in followed.parameters():
        assert not parameter._post_accumulate_grad_hooks
    assert not of_torch._global_optimizer_pre_hooks
    assert not of_torch._global_optimizer_post_hooks


class Wrapper(nn.Module):
    """What DDP, DeepSpeed and Megatron do to names."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *given: Any) -> Any:
        return self.module(*given)


def test_names_are_without_wrappers(tmp_path: Path) -> None:
    for name, wrap in (("plain", lambda model: model), ("wrapped", lambda m: Wrapper(Wrapper(m)))):
        model = wrap(decoder())
        debugger = configure(tmp_path / name)
        debugger.monitor(model)
        train(model)
        PrecisionDebugger.close()
    assert read(tmp_path / "plain") == read(tmp_path / "wrapped")


class Recomputed(nn.Module):
    def __init__(self, inner: Decoder, reentrant: bool) -> None:
        super().__init__()
        self.inner, self.reentrant = inner, reentrant

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        inner = self.inner
        mask = torch.full((words.shape[1],) * 2, float("-inf")).triu(1)
        hidden = inner.embed(words)
        for layer in inner.layers:
            hidden = checkpoint(layer, hidden, mask, use_reentrant=self.reentrant)
        return inner.head(inner.norm(hidden))


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_checkpoint_runs_again_is_not_counted_twice(tmp_path: Path, reentrant: bool) -> None:
    model = Recomputed(decoder(), reentrant)
    model.eval()
    model(torch.zeros(1, 6, dtype=torch.long))  # not of the training
    model.train()
    debugger = configure(tmp_path, record=["activation"])
    debugger.monitor(model)
    train(model)
    PrecisionDebugger.close()
    counts = {
        row["count"] for (_, _, name), row in read(tmp_path).items() if name == "inner.layers.1.mlp"
    }
    assert counts == {2 * 6 * 16}


def test_patterns_choose_what_is_recorded(tmp_path: Path) -> None:
    model = decoder()
    record = {"gradient": ["layers.0.*"], "activation": ["*.mlp"]}
    debugger = configure(tmp_path, record=record, every=2)
    debugger.monitor(model)
    train(model)
    PrecisionDebugger.close()
    found = read(tmp_path)
    assert {step for step, _, _ in found} == {0, 2, 4}
    assert {name for _, kind, name in found if kind == "activation"} == {
        "layers.0.mlp",
        "layers.1.mlp",
    }
    gradients = {name for _, kind, name in found if kind == "gradient"}
    assert gradients == {n for n, _ in model.named_parameters() if n.startswith("layers.0.")}
    assert {kind for _, kind, _ in found} == {"gradient", "activation"}


def test_tensorboard_reads_the_scalars(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = decoder()
    debugger = configure(tmp_path)
    debugger.monitor(model)
    train(model)
    PrecisionDebugger.close()
    events = EventAccumulator(str(tmp_path / "dump" / "monitor" / "rank0"))
    events.Reload()
    found = read(tmp_path)
    shown = events.Scalars("gradient/head.weight/norm")
    assert [one.step for one in shown] == list(range(STEPS))
    for one in shown:
        norm = found[(one.step, "gradient", "head.weight")]["norm"]
        assert one.value == pytest.approx(norm, rel=1e-6)
    assert "learning_rate/group0" in events.Tags()["scalars"]


def test_parquet_holds_the_same_as_the_table(tmp_path: Path) -> None:
    from msprobe_builder.trend.monitor import read_rank

    records = []
    for name in ("csv", "parquet"):
        model = decoder()
        debugger = configure(tmp_path / name, formats=[name])
        debugger.monitor(model)
        train(model, steps=66)
        PrecisionDebugger.close()
        records.append(read_rank(tmp_path / name / "dump" / "monitor" / "rank0"))
    table, parquet = records
    assert len(list((tmp_path / "parquet" / "dump" / "monitor" / "rank0").glob("*.parquet"))) == 2
    assert table.targets == parquet.targets
    assert np.array_equal(table.step, parquet.step)
    assert np.allclose(table.values, parquet.values, rtol=1e-8)


def poison(step: int, model: nn.Module, _: Any) -> None:
    if step == 3:
        with torch.no_grad():
            model.layers[1].mlp.gate.weight.grad[0, 0] = math.nan  # type: ignore[index, union-attr]


def jump(step: int, _: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    if step == 3:
        optimizer.param_groups[0]["lr"] = 0.2


def vanish(step: int, model: nn.Module, _: Any) -> None:
    if step >= 3:
        model.layers[0].attention.out.weight.grad.zero_()  # type: ignore[index, union-attr]


@pytest.mark.parametrize(
    ("change", "rule", "kind", "name"),
    [
        (poison, "nan", "gradient", "layers.1.mlp.gate.weight"),
        (jump, "jump", "learning_rate", "group0"),
        (vanish, "vanishing", "gradient", "layers.0.attention.out.weight"),
    ],
    ids=["nan", "jump", "vanishing"],
)
def test_an_alert_names_the_first_step_and_place(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    change: Change,
    rule: str,
    kind: str,
    name: str,
) -> None:
    model = decoder()
    debugger = configure(tmp_path)
    debugger.monitor(model)
    with caplog.at_level(logging.WARNING, "msprobe_collector"):
        train(model, change)
        PrecisionDebugger.close()
    [path] = (tmp_path / "dump" / "monitor" / "rank0").glob("alerts_*.csv")
    with path.open(encoding="utf-8", newline="") as file:
        first = next(csv.DictReader(file))
    assert (first["step"], first["rule"], first["kind"], first["name"]) == ("3", rule, kind, name)
    assert f"at step 3 {first['sentence']}" in caplog.text


def test_a_training_without_trouble_raises_no_alert(tmp_path: Path) -> None:
    model = decoder()
    debugger = configure(tmp_path)
    debugger.monitor(model)
    train(model, steps=20)
    PrecisionDebugger.close()
    assert not list((tmp_path / "dump" / "monitor" / "rank0").glob("alerts_*.csv"))


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ({"every": 0}, "every"),
        ({"micro_batches": 1}, "micro_batches"),
        ({"formats": [[]]}, "formats"),
        ({"alerts": {"jump": 10**400}}, "jump"),
        ({"formats": ["xml"]}, "formats"),
        ({"record": ["weights"]}, "record"),
        ({"record": ["weight", 3]}, "record"),
        ({"record": {"weight": "layers"}}, "record.weight"),
        ({"alerts": {"nan": 3}}, "alerts.nan"),
        ({"alerts": {"jump": 0.5}}, "alerts.jump"),
        (7, "monitor"),
    ],
)
def test_a_wrong_key_is_named(tmp_path: Path, section: Any, key: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"dump_path": str(tmp_path), "monitor": section}))
    with pytest.raises(CollectorError, match=key.replace(".", r"\.")):
        PrecisionDebugger(str(path))


def test_dumps_are_taken_of_single_steps_beside_the_monitor(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    content = {
        "task": "statistics",
        "level": "L0",
        "step": [1],
        "dump_path": str(tmp_path / "dump"),
        "monitor": {"record": ["gradient"]},
    }
    path.write_text(json.dumps(content))
    model = decoder()
    debugger = PrecisionDebugger(str(path))
    debugger.monitor(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        debugger.start(model)
        model(torch.zeros(1, 6, dtype=torch.long)).sum().backward()
        debugger.stop()
        optimizer.step()
        debugger.step()
    PrecisionDebugger.close()
    assert (tmp_path / "dump" / "step1" / "rank" / "dump.json").is_file()
    assert {step for step, _, _ in read(tmp_path)} == {1}


def test_a_gradient_that_changes_and_keeps_its_sum_is_measured_again(tmp_path: Path) -> None:
    model = nn.Linear(3, 1, bias=False)
    configure(tmp_path).monitor(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for given, used in (((1.0, 2.0, 3.0), (2.0, 2.0, 2.0)), ((1.0, 2.0, 3.0), (3.0, 2.0, 1.0))):
        model(torch.tensor(given)).sum().backward()
        model.weight.grad = torch.tensor([used])
        optimizer.step()
        optimizer.zero_grad()
    PrecisionDebugger.close()
    rows = read(tmp_path)
    assert rows[0, "local_gradient", "weight"]["max"] == 3
    assert rows[0, "gradient", "weight"]["max"] == 2
    assert rows[0, "gradient", "weight"]["norm"] == pytest.approx(math.sqrt(12))


def test_two_optimizers_number_their_groups_on(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    configure(tmp_path).monitor(model)
    optimizers = [
        torch.optim.SGD(one.parameters(), lr=rate)
        for one, rate in zip(model, (0.1, 0.2), strict=True)
    ]
    for _ in range(2):
        model(torch.ones(3)).sum().backward()
        for one in optimizers:
            one.step()
            one.zero_grad()
    PrecisionDebugger.close()
    rows = read(tmp_path)
    for step in range(2):
        assert rows[step, "learning_rate", "group0"]["norm"] == pytest.approx(0.1)
        assert rows[step, "learning_rate", "group1"]["norm"] == pytest.approx(0.2)
        assert (step, "gradient", "0.weight") in rows
        assert (step, "gradient", "1.weight") in rows
