"""Each call of a step run again: what is right, what is not, and what could not be run."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from msprobe_bisect.again import Again, all_again
from msprobe_bisect.runs import Budget, SpentError
from msprobe_bisect.stages import Found, Round, concluded, verdict_of
from msprobe_bisect.traces import Part, Parting
from msprobe_builder import BuildConfig, build
from msprobe_builder.base.errors import BuildError
from msprobe_builder.database.read.verdict import Suspect
from msprobe_builder.facts.fact import fact, has_code
from msprobe_builder.facts.words import HIDDEN, UNUSUAL
from msprobe_collector import PrecisionDebugger


class Outside(nn.Module):
    """Computes where nothing is recorded."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(np.tanh(np.from_dlpack(x)))


class Net(nn.Module):
    def __init__(self, share: float, outside: bool) -> None:
        super().__init__()
        self.up, self.down, self.share = nn.Linear(16, 32), nn.Linear(32, 16), share
        self.same = nn.Identity()
        self.outside = Outside() if outside else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        h = functional.dropout(functional.gelu(self.up(x)), self.share)
        made: Tensor = self.outside(self.same(x + self.down(h).T.T).detach())
        return made


def recorded(folder: Path, share: float = 0.0, outside: bool = False) -> dict[str, Path]:
    """Dumps of tensors of both runs, which are the same one."""
    torch.manual_seed(0)
    net, x = Net(share, outside), torch.randn(4, 16)
    debugger = PrecisionDebugger(dump_path=folder, task="tensor", level="mix")
    debugger.start(model=net)
    with torch.autocast("cpu", torch.bfloat16):
        net(x)
    debugger.stop()
    debugger.step()
    PrecisionDebugger.close()
    return {"npu": folder, "bench": folder}


def again(dumps: dict[str, Path], folder: Path) -> Again:
    return all_again(dumps, 0, folder, Budget())


def test_calls_that_are_right_are_counted_on_both_sides(tmp_path: Path) -> None:
    found = again(recorded(tmp_path / "dump"), tmp_path)
    assert (found.wrong, found.left_out, found.is_enough) == ((), (), True)
    assert found.right == 2 * 8  # two products, gelu, dropout, two attributes, a sum, detach


def test_a_result_that_is_off_is_told_with_rank_and_side(tmp_path: Path) -> None:
    planted = torch.library.Library("aten", "IMPL")
    planted.impl("gelu", lambda x, **_: functional.silu(x), "CPU")
    try:
        dumps = {"npu": recorded(tmp_path / "npu")["npu"]}
    finally:
        planted._destroy()
    dumps["bench"] = recorded(tmp_path / "bench")["bench"]
    found = again(dumps, tmp_path)
    assert found.wrong == (("Functional.gelu.0", "forward", 0, "npu"),)


def test_what_is_drawn_or_computed_elsewhere_is_left_out(tmp_path: Path) -> None:
    found = again(recorded(tmp_path / "dump", 0.5, outside=True), tmp_path)
    assert found.left_out == (
        "Functional.dropout.0.forward",
        "Module.outside.Outside.forward.0",
    )
    assert found.is_enough


@pytest.mark.parametrize(
    ("right", "left_out", "enough"), [(2, 1, True), (2, 2, False), (0, 1, False), (0, 0, False)]
)
def test_right_is_said_where_two_of_three_were_run(right: int, left_out: int, enough: bool) -> None:
    names = tuple(f"Torch.bernoulli.{number}" for number in range(left_out))
    assert Again(right, (), names).is_enough is enough


def test_a_step_that_one_side_lacks_is_said(tmp_path: Path) -> None:
    dumps = recorded(tmp_path / "dump")
    with pytest.raises(BuildError, match=r"dump holds nothing of step 7; record it again\."):
        all_again(dumps, 7, tmp_path, Budget())
    (tmp_path / "dump" / "step0" / "rank_of_nobody").mkdir()  # no rank, and no reason to fail
    assert again(dumps, tmp_path).is_enough


def test_where_the_time_is_spent_the_same_command_goes_on(tmp_path: Path) -> None:
    dumps = recorded(tmp_path / "dump")
    with pytest.raises(SpentError, match="the same command with more goes on"):
        all_again(dumps, 0, tmp_path, Budget(seconds=0.0))
    assert again(dumps, tmp_path).right == 2 * 8


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_guess_that_is_right_says_nothing_of_the_other_calls(
    tmp_path: Path, *, is_whole: bool
) -> None:
    """Only where each call can be run again nothing is said to be wrong."""
    sides = recorded(tmp_path / "dump")
    build(BuildConfig(sides["npu"], sides["bench"]), tmp_path, name="calls.vis.db", workers=1)
    database = tmp_path / "calls.vis.db"
    guess = Suspect(
        *(0, 0, "npu", 1, "Functional.gelu.0.forward", "forward", "weak", "output", 0.01, 0.002),
        *(0, None, (fact(UNUSUAL, times=5.0),), (), None, None, True),
    )
    told = (fact(HIDDEN, nodes=8),)
    verdict = replace(verdict_of(database), conclusion="undecided", said=told, suspects=(guess,))
    rounds = [Round(verdict, database, sides, is_whole)]
    said: list[str] = []
    found: Found = concluded(Parting(Part.VALUES), rounds, (), said.append, Budget())
    assert "Functional.gelu.0" in said[0]  # tried, and right
    assert (found.conclusion, found.culprit) == ("clean" if is_whole else "undecided", "")
    assert has_code(found.told, "bisect.each_right") is is_whole
