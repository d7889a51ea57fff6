"""A record of gradients is that of the training, and two of them part where they were made to."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.command.main import main
from msprobe_builder.facts.wording import tell
from msprobe_checks import GradComparator
from msprobe_checks.gradients.similarity import compare_gradients
from msprobe_collector import PrecisionDebugger
from msprobe_collector.config.gradients import GradientSettings
from msprobe_collector.errors import CollectorError
from msprobe_collector.gradients import measure

STEPS = 6
Change = Callable[[int, nn.Module], None]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    if PrecisionDebugger._current is not None:
        PrecisionDebugger.close()


def model_of(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 20))


def train(
    directory: Path, change: Change = lambda *_: None, micro: int = 1, **section: Any
) -> list[dict[str, torch.Tensor]]:
    """Record a training; the gradients that the optimizer saw, cloned by hand before each step."""
    config = directory / "config.json"
    directory.mkdir(parents=True, exist_ok=True)
    content = {"task": "grad_probe", "dump_path": str(directory / "dump"), "grad_probe": section}
    config.write_text(json.dumps(content))
    model = model_of()
    debugger = PrecisionDebugger(str(config))
    debugger.monitor(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(7)
    seen = []
    for step in range(STEPS):
        for _ in range(micro):
            words = torch.randint(0, 20, (4, 5), generator=generator)
            loss = nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
            loss.backward()
        change(step, model)
        seen.append(
            {
                name: one.grad.clone()
                for name, one in model.named_parameters()
                if one.grad is not None
            }
        )
        optimizer.step()
        optimizer.zero_grad()
    debugger.stop()
    PrecisionDebugger.close()
    return seen


@pytest.mark.parametrize(
    ("positive", "count"), [(53, 96), (1, 3), (2, 3), (7, 10), (16777217, 16777219)]
)
def test_shares_are_those_of_float64(positive: int, count: int) -> None:
    gradient = torch.full((count,), -1.0)
    gradient[:positive] = 1.0
    found = measure.row("w", gradient, GradientSettings(level="L2", bounds=(0.0,)))
    assert found[1:4] == [(count - positive) / count, positive / count, 0.0]


def rows_of(directory: Path, step: int) -> list[dict[str, str]]:
    path = directory / "dump" / "rank0" / f"grad_summary_{step}.csv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def scaled_from(first: int) -> Change:
    def change(step: int, model: nn.Module) -> None:
        for parameter in model[3].parameters() if step >= first else ():  # type: ignore[index]
            assert parameter.grad is not None
            parameter.grad *= 2

    return change


@pytest.mark.parametrize("micro", [1, 3])
def test_each_row_is_that_of_the_gradient(tmp_path: Path, micro: int) -> None:
    seen = train(tmp_path, micro=micro, grad_level="L2", bounds=[-0.01, 0, 0.01])
    for step, gradients in enumerate(seen):
        rows = {row["param_name"]: row for row in rows_of(tmp_path, step)}
        assert list(rows) == list(gradients)
        for name, gradient in gradients.items():
            row = rows[name]
            assert float(row["max"]) == float(gradient.max())
            assert float(row["min"]) == float(gradient.min())
            norm = float(gradient.double().square().sum().sqrt())
            assert float(row["norm"]) == pytest.approx(norm, rel=1e-6)
            assert row["shape"] == str(list(gradient.shape))
            x = gradient.numpy()
            shares = {
                "(-inf, -0.01]": (x <= -0.01).mean(),
                "(-0.01, 0]": ((x > -0.01) & (x <= 0)).mean(),
                "(0, 0.01]": ((x > 0) & (x <= 0.01)).mean(),
                "(0.01, inf)": (x > 0.01).mean(),
                "=0": (x == 0).mean(),
            }
            assert {key: float(row[key]) for key in shares} == shares
            signs = np.load(tmp_path / "dump" / "rank0" / f"step{step}" / f"{name}.npy")
            assert signs.dtype == np.bool_
            assert np.array_equal(signs, x > 0)


@pytest.mark.parametrize(
    ("level", "head"),
    [
        ("L0", ["param_name", "MD5", "max", "min", "norm", "shape"]),
        ("L1", ["param_name", "max", "min", "norm", "shape"]),
        (
            "L2",
            [
                *("param_name", "(-inf, -1]", "(-1, 0]", "(0, 1]", "(1, inf)", "=0"),
                *("max", "min", "norm", "shape"),
            ],
        ),
    ],
)
def test_columns_are_the_documented_ones(tmp_path: Path, level: str, head: list[str]) -> None:
    train(tmp_path, grad_level=level)
    assert list(rows_of(tmp_path, 0)[0]) == head
    assert (tmp_path / "dump" / "rank0" / "step0").exists() == (level != "L0")


def test_training_is_the_same_bit_for_bit_with_and_without(tmp_path: Path) -> None:
    recorded = train(tmp_path, grad_level="L2", sketch=64, sign_format="bits")
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(7)
    for gradients in recorded:
        words = torch.randint(0, 20, (4, 5), generator=generator)
        nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten()).backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            assert torch.equal(parameter.grad, gradients[name])
        optimizer.step()
        optimizer.zero_grad()


def test_steps_are_calls_of_the_optimizer_that_owns_a_parameter(tmp_path: Path) -> None:
    model = model_of()
    debugger = PrecisionDebugger(None, "grad_probe", tmp_path / "dump")
    debugger.monitor(model)
    first, second = model[1], model[3]  # type: ignore[index]
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (first, second)]
    for _ in range(2):
        model(torch.arange(4)).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
    debugger.stop()
    for step in range(2):
        names = [row["param_name"] for row in rows_of(tmp_path, step)]
        assert names == ["1.weight", "1.bias", "3.weight", "3.bias"]
    assert not (tmp_path / "dump" / "rank0" / "grad_summary_2.csv").exists()


def test_main_gradients_count_where_there_are_any(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    debugger = PrecisionDebugger(None, "grad_probe", tmp_path / "dump")
    debugger.monitor(model)
    for parameter in model.parameters():
        parameter.main_grad = torch.full_like(parameter, 3.0)  # type: ignore[attr-defined]
    copies = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]
    torch.optim.SGD(copies, lr=0.1).step()
    debugger.stop()
    assert [float(row["max"]) for row in rows_of(tmp_path, 0)] == [3.0, 3.0]


@pytest.mark.parametrize("sign_format", ["bool", "bits"])
def test_a_gradient_scaled_from_a_step_on_is_named(tmp_path: Path, sign_format: str) -> None:
    train(tmp_path / "a", scaled_from(3), sign_format=sign_format)
    train(tmp_path / "b", sign_format=sign_format)
    found = compare_gradients(tmp_path / "a" / "dump", tmp_path / "b" / "dump").breaks
    assert [(one.rank, one.step) for one in found] == [(0, 3)]
    assert set(found[0].names) == {"3.weight", "3.bias"}
    assert "the norm is 2 times" in tell(found[0].why)


def renamed(record: Path, target: Path, begin: str) -> Path:
    """The same record of a model with ``begin`` before each name."""
    for source in record.rglob("*"):
        if source.suffix == ".csv":
            lines = source.read_text().splitlines()
            text = "\n".join([lines[0], *(begin + line for line in lines[1:])])
            place = target / source.relative_to(record)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text + "\n")
        elif source.suffix == ".npy":
            place = target / source.relative_to(record)
            place = place.with_name(begin + place.name)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)
    return target


@pytest.mark.parametrize("begin", ["module.", "module._orig_mod."])
def test_what_wraps_the_model_does_not_matter(tmp_path: Path, begin: str) -> None:
    train(tmp_path / "a", scaled_from(3), sketch=64)
    train(tmp_path / "b", sketch=64)
    plain = tmp_path / "a" / "dump", tmp_path / "b" / "dump"
    wrapped = renamed(plain[1], tmp_path / "wrapped", begin)
    expected, found = compare_gradients(*plain), compare_gradients(plain[0], wrapped)
    assert found == expected
    assert found.ranks[0].parameters["3.weight"][0].cosine is not None
    assert compare_gradients(wrapped, plain[1]).breaks == ()


def test_nothing_in_common_is_no_agreement(tmp_path: Path) -> None:
    train(tmp_path / "a")
    record = tmp_path / "a" / "dump"
    other = renamed(record, tmp_path / "other", "net.")
    with pytest.raises(UsageError, match=r"no parameter .* in common: 0\.weight against net\.0\."):
        compare_gradients(record, other)


def test_equal_trainings_agree(tmp_path: Path) -> None:
    for name in ("a", "b"):
        train(tmp_path / name)
    assert compare_gradients(tmp_path / "a" / "dump", tmp_path / "b" / "dump").breaks == ()


def test_the_documented_table_is_the_share_of_equal_signs(tmp_path: Path) -> None:
    def turned(step: int, model: nn.Module) -> None:
        weight = model[1].weight  # type: ignore[index]
        if step == 2:
            weight.grad[:3] *= -1

    a = train(tmp_path / "a", turned)
    b = train(tmp_path / "b")
    GradComparator.compare_distributed(
        tmp_path / "a" / "dump", tmp_path / "b" / "dump", tmp_path / "out"
    )
    with (tmp_path / "out" / "rank0" / "similarities.csv").open(newline="") as file:
        table = {row[0]: row[1:] for row in csv.reader(file)}
    assert table["step"] == [str(step) for step in range(STEPS)]
    for step in range(STEPS):
        equal = {name: (a[step][name] > 0) == (b[step][name] > 0) for name in a[step]}
        for name, one in equal.items():
            assert float(table[name][step]) == pytest.approx(float(one.double().mean()))
        together = torch.cat([one.flatten() for one in equal.values()]).double().mean()
        assert float(table["summary"][step]) == pytest.approx(float(together))
    pictures = tmp_path / "out" / "rank0" / "similarities_picture"
    assert (pictures / "summary_similarities.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads((tmp_path / "out" / "gradients.json").read_text())["breaks"]
    assert [(one["step"], one["parameter"]) for one in found] == [(2, "1.weight")]


def test_sketches_tell_the_cosine_of_whole_gradients(tmp_path: Path) -> None:
    def noisy(_: int, model: nn.Module) -> None:
        weight = model[0].weight  # type: ignore[index]
        weight.grad += 0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))

    a, b = train(tmp_path / "a", noisy, sketch=4096), train(tmp_path / "b", sketch=4096)
    rank = compare_gradients(tmp_path / "a" / "dump", tmp_path / "b" / "dump").ranks[0]
    true = nn.functional.cosine_similarity(
        a[0]["0.weight"].flatten(), b[0]["0.weight"].flatten(), dim=0
    )
    assert rank.parameters["0.weight"][0].cosine == pytest.approx(float(true), abs=0.1)
    assert rank.parameters["3.weight"][0].cosine == pytest.approx(1, abs=1e-6)


def test_independent_gradients_are_no_more_alike_than_by_chance(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(3)

    def random(_: int, model: nn.Module) -> None:
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)

    for name in ("a", "b"):
        train(tmp_path / name, random, sign_format="bits")
    rank = compare_gradients(tmp_path / "a" / "dump", tmp_path / "b" / "dump").ranks[0]
    assert rank.parameters["3.weight"][0].corrected == pytest.approx(0, abs=0.25)
    assert rank.parameters["3.weight"][0].same == pytest.approx(0.5, abs=0.12)


def test_the_command_prints_the_first_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path / "a", scaled_from(4))
    train(tmp_path / "b")
    paths = [f"{tmp_path}/{name}/dump" for name in "ab"]
    assert main(["gradients", *paths, "-o", f"{tmp_path}/out"]) == 0
    assert "the runs part at step 4, rank 0, 3." in capsys.readouterr().out
    assert "<script" not in (tmp_path / "out" / "gradients.html").read_text()
    assert main(["gradients", *paths, "-o", f"{tmp_path}/zh", "--language", "zh"]) == 0
    assert "结论      两次运行在 step 4、rank 0 的 3." in capsys.readouterr().out
    assert "<h1>梯度</h1>" in (tmp_path / "zh" / "gradients.html").read_text("utf-8")
    told = [json.loads((tmp_path / one / "gradients.json").read_text()) for one in ("out", "zh")]
    assert told[0] == told[1]  # for programs it is English
    [first] = told[0]["breaks"]
    assert (first["why"][:12], first["facts"][0]["code"]) == ("the norm is ", "gradients.norm")


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"grad_level": "L3"}, "grad_level is 'L3'"),
        ({"bounds": [1, 0]}, "must rise"),
        ({"bounds": "0"}, "bounds is '0'"),
        ({"bounds": [2**63]}, "64-bit"),
        ({"bounds": [10**400]}, "64-bit"),
        ({"bounds": [float("nan")]}, "64-bit"),
        ({"param_list": "a"}, "param_list is 'a'"),
        ({"sign_format": "x"}, "sign_format is 'x'"),
        ({"sketch": -1}, "sketch is -1"),
    ],
)
def test_wrong_settings_are_one_sentence(
    tmp_path: Path, section: dict[str, Any], words: str
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"task": "grad_probe", "dump_path": "d", "grad_probe": section}))
    with pytest.raises(CollectorError, match=words):
        PrecisionDebugger(str(config))


def test_what_is_no_record_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no directory"):
        compare_gradients(tmp_path / "none", tmp_path)
    with pytest.raises(UsageError, match="holds no rank"):
        compare_gradients(tmp_path, tmp_path)
    train(tmp_path / "a")
    summary = tmp_path / "a" / "dump" / "rank0" / "grad_summary_1.csv"
    columns = "param_name,max,min,norm,shape"
    for damaged in (
        "nonsense\na",
        "param_name,max\na,b\n",
        f'{columns}\na,1,1,1,"[99999999999999999999]"\n',
    ):
        summary.write_text(damaged)
        with pytest.raises(BuildError, match=r"grad_summary_1\.csv is damaged"):
            compare_gradients(tmp_path / "a" / "dump", tmp_path / "a" / "dump")


def test_signs_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    train(tmp_path / "a")
    np.save(tmp_path / "a" / "dump" / "rank0" / "step0" / "3.bias.npy", np.ones(3, bool))
    with pytest.raises(BuildError, match=r"3\.bias\.npy is damaged"):
        compare_gradients(tmp_path / "a" / "dump", tmp_path / "a" / "dump")
