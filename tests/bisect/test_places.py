"""The script that starts a training again and looks at places of it."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from msprobe_bisect import standalone
from msprobe_builder.sketch.definition import FLAT, sketch_of

TRAIN = """
import sys
import torch
torch.manual_seed(0)
part = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh())
model = torch.nn.Module()
model.inner = part
model.frozen = torch.nn.Linear(4, 4).requires_grad_(False)
if "compiled" in sys.argv:
    part[1].compile(backend="eager")
optimizer = torch.optim.SGD(part.parameters(), 0.1)
for step in range(3):
    model.frozen(torch.ones(2, 4))  # trains nothing
    x = torch.full((2, 4), float(step))
    part(input=x + ("data" in sys.argv)).sum().backward()
    if "gradient" in sys.argv and step == 1:
        part[0].bias.grad *= 2
    optimizer.step()
    optimizer.zero_grad()
while "hangs" in sys.argv:
    pass
"""


@pytest.mark.parametrize("shape", [(), (5,), (32,), (7, 9), (3, 64, 5), (1000,), (256, 300)])
def test_its_sums_are_those_of_a_sketch(shape: tuple[int, ...]) -> None:
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    if drawn.dim() > 1:
        drawn[0, 1], drawn[1, 0] = float("nan"), float("inf")
    expected = sketch_of(drawn.numpy()).numbers[:FLAT]
    np.testing.assert_allclose(standalone.sketch(drawn), expected, rtol=1e-6, atol=1e-6)


def script(folder: Path, **values: Any) -> Path:
    """The program with what it has to look at, beside the training."""
    text = Path(standalone.__file__).read_text()
    for name, value in values.items():
        text = re.sub(rf"^{name}\b.*= .*$", f"{name} = {value!r}", text, count=1, flags=re.M)
    (folder / "train.py").write_text(TRAIN)
    (folder / "reproduce.py").write_text(text)
    return folder / "reproduce.py"


def looked(path: Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, path.name, sys.executable, "train.py", *words]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=path.parent)
    assert not answer.stderr, answer.stderr
    return answer.returncode, answer.stdout


def given(step: float) -> dict[str, Any]:
    numbers = torch.full((2, 4), step).numpy()
    return {"shape": [2, 4], "crc": zlib.crc32(numbers.tobytes()), "limit": 0.0}


# As the search writes them of a model that holds what is called.
BIAS = {"shape": [8], "sketch": [2.0] * 8 + [0.0] * 24, "limit": 0.5}  # of tanh, about 2 at most


def test_what_a_part_of_the_model_is_given_is_known(tmp_path: Path) -> None:
    path = script(tmp_path, STEP=1, FIRST=1, REFERENCE={"tensor 0 given to call 0": given(1.0)})
    assert looked(path) == (0, "right step 1, rank 0: tensor 0 given to call 0 is the same\n")
    status, said = looked(path, "data", "hangs")
    assert (status, said) == (1, "WRONG step 1, rank 0: tensor 0 given to call 0 is not the same\n")


def test_names_are_those_of_the_larger_model(tmp_path: Path) -> None:
    reference = {"gradient of inner.0.bias": BIAS, "gradient of inner.0.lost": BIAS}
    path = script(tmp_path, STEP=1, FIRST=1, REFERENCE=reference)
    status, said = looked(path, "gradient", "hangs")
    assert status == 1
    assert "gradient of inner.0.bias is off by" in said
    assert "gradient of inner.0.lost is not there" in said


@pytest.mark.parametrize("words", [[], ["compiled"]])
def test_a_module_is_looked_at_whether_it_is_compiled(words: list[str], tmp_path: Path) -> None:
    made = {"shape": [2, 8], "sketch": [0.0] * 32, "limit": 0.1}
    reference = {"output 0 of inner.1, call 0": made}
    path = script(tmp_path, STEP=0, FIRST=0, REFERENCE=reference)
    status, said = looked(path, *words, "hangs")
    assert status == 1
    assert said.startswith("WRONG step 0, rank 0: output 0 of inner.1, call 0 is ")


@pytest.mark.parametrize("values", [{"FIRST": 9}, {"RANK": 3}])
def test_a_step_that_is_not_reached_is_said(values: dict[str, int], tmp_path: Path) -> None:
    path = script(tmp_path, STEP=4, REFERENCE={"tensor 0 given to call 0": given(1.0)}, **values)
    rank = values.get("RANK", 0)
    assert looked(path) == (2, f"Step 4 of rank {rank} was not reached.\n")


def test_a_place_that_is_not_there_is_said(tmp_path: Path) -> None:
    path = script(tmp_path, REFERENCE={"output 0 of elsewhere, call 0": BIAS})
    assert looked(path) == (2, "Step 0 of rank 0 has none of: output 0 of elsewhere, call 0.\n")
