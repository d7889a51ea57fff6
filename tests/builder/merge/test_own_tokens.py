"""Losses of ranks that have parts of a sequence, spelt in many ways: whose gradients are compared.

The two ranks are recorded one after the other; nothing in the model needs the other's tokens. Of a
mean over a rank's own tokens each gradient is twice that of the mean over all.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss, nll_loss

from msprobe_builder import BuildConfig, build
from msprobe_builder.command.main import main
from msprobe_builder.merge.ranks.layout import parse_layout
from msprobe_collector import PrecisionDebugger
from tests.worded import worded

Loss = Callable[[Tensor, Tensor], Tensor]
WORDS = torch.arange(16).reshape(2, 8) % 11
LABELS = (3 * WORDS + 1) % 11
RANKS = ([0, 1, 6, 7], [2, 3, 4, 5])


class Model(torch.nn.Module):
    """Words to words, each on its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(11, width)
        self.up = torch.nn.Linear(width, width)
        self.out = torch.nn.Linear(width, 11)

    def forward(self, words: Tensor) -> Tensor:
        scores: Tensor = self.out(torch.tanh(self.up(self.words(words))))
        return scores


def each(scores: Tensor, labels: Tensor, reduction: str = "none") -> Tensor:
    return cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction=reduction)


def mean(scores: Tensor, labels: Tensor) -> Tensor:
    return each(scores, labels, "mean")


def mean_of_each(scores: Tensor, labels: Tensor) -> Tensor:
    return each(scores, labels).mean()


def sum_by_own_count(scores: Tensor, labels: Tensor) -> Tensor:
    return each(scores, labels, "sum") / labels.numel()


def sum_by_tensor_of_own_count(scores: Tensor, labels: Tensor) -> Tensor:
    return each(scores, labels, "sum") / torch.tensor(float(labels.numel()))


def sum_by_own_mask(scores: Tensor, labels: Tensor) -> Tensor:
    mask = (labels >= 0).float().flatten()
    return (each(scores, labels) * mask).sum() / mask.sum()


def squares(scores: Tensor, labels: Tensor) -> Tensor:
    return mse_loss(scores.sum(-1), labels.float())


def distances(scores: Tensor, labels: Tensor) -> Tensor:
    return mse_loss(scores.sum(-1), labels.float() - 5)


def sum_that_is_averaged_later(scores: Tensor, labels: Tensor) -> Tensor:
    """The number of ranks makes up for their mean."""
    return each(scores, labels, "sum") / 16 * (16 // labels.numel())


def logarithms_that_are_averaged_later(scores: Tensor, labels: Tensor) -> Tensor:
    chosen = nll_loss(scores.log_softmax(-1).flatten(0, 1), labels.flatten(), reduction="sum")
    return chosen / 16 * (16 // labels.numel())


def sum_by_count_of_all(scores: Tensor, labels: Tensor) -> Tensor:
    return each(scores, labels, "sum") / 16


def mean_that_the_script_divides(scores: Tensor, labels: Tensor) -> Tensor:
    share = labels.numel() / 16
    return mean(scores, labels) * share


OWN = (
    *(mean, mean_of_each, sum_by_own_count),
    *(sum_by_tensor_of_own_count, sum_by_own_mask, squares, distances),
    *(sum_that_is_averaged_later, logarithms_that_are_averaged_later),
)
OF_ALL = (sum_by_count_of_all, mean_that_the_script_divides)


def record(folder: Path, places: list[int], loss: Loss, weight: float, width: int) -> None:
    """One step of a rank that has the tokens at ``places``."""
    torch.manual_seed(0)
    model = Model(width)
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder / "new"))
    debugger.start(model)
    result = weight * loss(model(WORDS[:, places]), LABELS[:, places])
    result.backward()  # type: ignore[no-untyped-call]
    debugger.stop()
    debugger.step()
    debugger.close()
    [dump] = (folder / "new").rglob("dump.json")
    shutil.move(dump.parent, folder / f"rank{len([*folder.glob('rank*')])}")
    shutil.rmtree(folder / "new")


def compared(folder: Path, loss: Loss, weight: float = 1.0, width: int = 6) -> Path:
    """Two ranks of parts of the sequence against one that has all of it."""
    for places in RANKS:
        record(folder / "npu", places, loss, weight, width)
    record(folder / "one", [*range(8)], loss, 1.0, width)
    sizes = {"tp": 1, "pp": 1}
    config = BuildConfig(
        folder / "npu",
        folder / "one",
        npu_layout=parse_layout({"rank_size": 2, **sizes, "cp": 2}, "npu"),
        bench_layout=parse_layout({"rank_size": 1, **sizes}, "bench"),
    )
    return build(config, folder / "out", workers=1).path


def gradients(database: Path) -> dict[str, float | None]:
    """Relative error of the norm of what each backward call of a layer is given and puts out."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT node || name, norm_relative_err FROM tensor_view WHERE side = 'npu'"
            " AND node LIKE 'Module%.backward.%'"
        )
        return dict(rows)


def divided(database: Path) -> int:
    """How many values were divided, as their recipe says."""
    with closing(sqlite3.connect(database)) as connection:
        [[count]] = worded(
            connection.execute(
                "SELECT count(*) FROM recipe_view WHERE recipe LIKE '%reason.own_mean%'"
            )
        )
    assert isinstance(count, int)
    return count


def verdict(database: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["verdict", str(database), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("loss", [*OWN, *OF_ALL], ids=lambda one: one.__name__)
def test_gradients_agree_however_the_loss_is_spelt(
    tmp_path: Path, loss: Loss, capsys: pytest.CaptureFixture[str]
) -> None:
    database = compared(tmp_path, loss)
    found = gradients(database)
    assert len(found) >= 5
    assert all(error is not None and error < 1e-5 for error in found.values()), found
    said = verdict(database, capsys)
    strong = [one for one in said["suspects"] if one["strength"] == "strong"]
    assert not strong, said
    assert bool(divided(database)) == (loss in OWN)


def counted_right(scores: Tensor, labels: Tensor) -> None:
    (scores.detach().argmax(-1) == labels).float()


def doubled(scores: Tensor, _: Tensor) -> None:
    scores.detach() * 2


def new_numbers(_: Tensor, __: Tensor) -> None:
    torch.zeros(1)


@pytest.mark.parametrize("behind", [counted_right, doubled, new_numbers], ids=lambda o: o.__name__)
@pytest.mark.parametrize("loss", [mean, sum_by_own_count], ids=lambda one: one.__name__)
def test_what_is_computed_of_each_token_behind_the_mean_changes_nothing(
    tmp_path: Path, loss: Loss, behind: Callable[[Tensor, Tensor], None]
) -> None:
    def and_more(scores: Tensor, labels: Tensor) -> Tensor:
        result = loss(scores, labels)
        behind(scores, labels)
        return result

    database = compared(tmp_path, and_more)
    found = gradients(database)
    assert all(error is not None and error < 1e-5 for error in found.values()), found
    assert divided(database)


def test_a_loss_that_is_twice_as_large_on_the_ranks_stays_twice_as_large(tmp_path: Path) -> None:
    """The mean is handed something else than the reference's: then nothing is divided."""
    found = gradients(compared(tmp_path, mean, weight=2.0))
    for error in found.values():
        assert error is not None
        assert np.isclose(error, 3.0, rtol=1e-4)


def test_where_labels_leave_tokens_out_nothing_is_divided(tmp_path: Path) -> None:
    """Of such a mean ranks count other numbers of tokens, and nobody recorded how many."""

    def some_left_out(scores: Tensor, labels: Tensor) -> Tensor:
        labels = labels.masked_fill(labels == int(LABELS[0, 0]), -100)
        return mean(scores, labels)

    assert not divided(compared(tmp_path, some_left_out))


def test_a_loss_of_each_token_is_no_gradient_though_it_has_the_shape_of_a_bias(
    tmp_path: Path,
) -> None:
    tokens = len(RANKS[0]) * len(WORDS)
    found = gradients(compared(tmp_path, mean_of_each, width=tokens))
    assert all(error is not None and error < 1e-5 for error in found.values()), found
