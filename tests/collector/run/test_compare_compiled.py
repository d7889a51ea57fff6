"""``msprobe-run --compare-compiled``: the region and the call that departs from eager."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.collector.run.test_command import recorded
from tests.collector.versions import needs_torch

pytestmark = needs_torch(2, 6, to="name the modules of compiled calls")

PROGRAM = """
import sys
import torch, torch.nn.functional as F
from torch import nn

def with_smaller_gradient(x):
    y = F.gelu(x)
    return y * 0.9 + (y * 0.1).detach()

torch.fx.wrap("with_smaller_gradient")

def backend(graph, inputs):
    for node in graph.graph.nodes:
        if node.target is F.gelu:
            if sys.argv[1] == "forward":
                node.kwargs = {"approximate": "tanh"}
            elif sys.argv[1] == "backward":
                node.target = with_smaller_gradient
    graph.recompile()
    return graph

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)

    def forward(self, x):
        h = F.gelu(self.norm(self.first(x)))
        if sys.argv[1] == "drawn":
            h = F.dropout(h, 0.3)
        return self.last(h).square()

torch.manual_seed(0)
torch.set_num_threads(1)
net = Net()
run = torch.compile(net, backend=backend)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(2):
    run(torch.randn(6, 8)).sum().backward()
    optimizer.step()
print(sum(one.sum().item() for one in net.state_dict().values()).hex())
"""


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("nothing", "None of 1 compiled region departs from eager."),
        ("drawn", "None of 1 compiled region departs from eager."),
        ("forward", "the forward of Functional.gelu (train.py:{line})"),
        ("backward", "the backward of Functional.gelu (train.py:{line})"),
    ],
)
def test_a_region_that_departs_is_named_with_its_call(
    planted: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    words = [sys.executable, "train.py", planted]
    plain = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    answer = recorded("--compare-compiled", "--", *words, folder=tmp_path)
    assert answer.returncode == (0 if planted in ("nothing", "drawn") else 91), answer.stderr
    assert answer.stdout == plain.stdout  # the training took no notice
    lines = PROGRAM.splitlines()
    line = next(n for n, one in enumerate(lines, start=1) if "h = F.gelu" in one)
    assert said.format(line=line) in answer.stderr
