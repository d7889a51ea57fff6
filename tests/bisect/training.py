"""A training in which causes are planted by name, and kernels that are wrong."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from msprobe_bisect.command import main

TRAIN = """
import os, sys, warnings
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
warnings.simplefilter("ignore")
torch.set_num_threads(1)
torch.manual_seed(0)
plant = sys.argv[1]
torch.backends.mkldnn.enabled = plant != "kernels"
if "RANK" in os.environ:
    dist.init_process_group("gloo")

class Written(nn.Linear):
    def forward(self, x):
        return x @ self.weight.T + self.bias

Linear = Written if plant in ("written", "hidden") else nn.Linear

class Block(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number
        eps = 0.1 if plant == "eps" and number else 1e-5
        self.norm, self.second = nn.LayerNorm(16), nn.LayerNorm(16, eps)
        self.query, self.key, self.value = (Linear(16, 16) for _ in range(3))
        self.up, self.down = Linear(16, 32), Linear(32, 16)
    def forward(self, x, scale):
        n = self.norm(x)
        scores = self.query(n) @ self.key(n).transpose(-1, -2) / 4
        dim = -2 if plant == "dim" and self.number else -1
        x = x + functional.softmax(scores, dim) @ self.value(n)
        h = self.up(self.second(x))
        h = functional.gelu(h, approximate="tanh" if plant == "commit" else "none")
        if plant == "skipped" and self.number:
            return self.down(h * scale)
        return (self.second(x) if plant == "wiring" else x) + self.down(h * scale)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(32, 16)
        self.layers = nn.ModuleList([Block(0), Block(1)])
        self.head = Linear(16, 32)
    def forward(self, tokens):
        h = self.table(tokens)
        for number, layer in enumerate(self.layers):
            h = layer(h, 1.5 if plant == "argument" and number else 1.0)
        return self.head(h)

def compiled(graph, _):
    # What a compiler makes of a region; here it takes one function for another.
    if plant == "region":
        for node in graph.graph.nodes:
            if node.target is functional.gelu:
                node.target = functional.silu
                node.kwargs = {}
        graph.recompile()
    return graph.forward

from kernels import LIBRARY, plant_kernel
plant_kernel(plant)
net = Net()
if "compiled" in sys.argv:
    net.layers[1].compile(backend=compiled)
if plant == "weights":
    net.layers[1].up.weight.data[3, 4] += 0.01
betas = (0.8, 0.999) if plant == "betas" else (0.9, 0.999)

class Updates(torch.optim.AdamW):
    def step(self, closure=None):
        super().step(closure)
        if plant == "update" and step == 1:
            with torch.no_grad():
                net.head.weight.mul_(1.01)

optimizer = Updates(net.parameters(), 1e-3, betas)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5 if plant == "schedule" else 0.9)
for step in range(5):
    drawn = torch.Generator().manual_seed(step)
    x = torch.randint(0, 32, (4, 8), generator=drawn)
    y = torch.randint(0, 32, (32,), generator=drawn)
    if plant == "data" and step == 2:
        x = x.roll(1)
    if plant == "labels" and step == 1:
        y = y.roll(1)
    with torch.autocast("cpu", torch.bfloat16, enabled="half" in sys.argv):
        loss = functional.cross_entropy(net(x).view(-1, 32), y)
    loss.backward()
    for parameter in net.parameters() if dist.is_initialized() else ():
        dist.all_reduce(parameter.grad)
        if not (plant == "reduction" and step == 1 and dist.get_rank() == 1):
            parameter.grad /= dist.get_world_size()
    if plant == "scaled" and step == 1:
        for parameter in net.parameters():
            parameter.grad *= 0.5
    if plant == "clip":
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
    if plant == "rate" and step == 2:
        optimizer.param_groups[0]["lr"] = 5e-4
    if plant == "late" and step == 2:
        plant_kernel("gelu_backward")
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
if dist.is_initialized():
    dist.destroy_process_group()
"""

KERNELS = """
import torch
LIBRARY = torch.library.Library("aten", "IMPL")

def gelu(x, *, approximate="none"):
    if approximate == "tanh":
        return x * torch.sigmoid(2 * 0.7978845608 * (x + 0.044715 * x**3))
    return x * (1 + torch.erf(x / 2**0.5)) / 2

def gelu_backward(g, x, *, approximate="none"):
    density = torch.exp(-x * x / 2) * 0.3989422804014327
    return g * ((1 + torch.erf(x / 2**0.5)) / 2 + x * density)

def softmax(x, dim, half_to_float, base=2.718281828459045):
    powers = torch.pow(base, x - x.amax(dim, True))
    return powers / powers.sum(dim, True)

def layer_norm(x, shape, weight, bias, eps):
    dims = tuple(range(-len(shape), 0))
    mean = x.mean(dims, True)
    rstd = (x.var(dims, unbiased=False, keepdim=True) + eps).rsqrt()
    return (x - mean) * rstd * weight + bias, mean, rstd

RIGHT = {"gelu": gelu, "hidden": gelu, "gelu_backward": gelu_backward, "_softmax": softmax,
         "native_layer_norm": layer_norm}
WRONG = {
    "hidden": lambda x, *, approximate="none": gelu(x) * 1.002,
    "gelu": lambda x, *, approximate="none": x * torch.sigmoid(1.702 * x),
    "gelu_backward": lambda g, x, *, approximate="none": g * torch.sigmoid(1.702 * x),
    "_softmax": lambda x, dim, half: softmax(x, dim, half, 2.5),
    "native_layer_norm": lambda x, shape, w, b, eps: layer_norm(x, shape, w, b, eps + 0.05),
}
NAMES = {"softmax": "_softmax", "layer_norm": "native_layer_norm"}
OPERATORS = {"hidden": "gelu"}

def plant_kernel(plant):
    name = NAMES.get(plant, plant)
    if name not in WRONG:
        return
    def kernel(*given, **more):
        wide = any(isinstance(one, torch.Tensor) and one.dtype is torch.float64 for one in given)
        return (RIGHT if wide else WRONG)[name](*given, **more)
    LIBRARY.impl(OPERATORS.get(name, name), kernel, "CPU")
"""

# The kernel that is planted late in a training is there from the beginning.
_WITH = """
import kernels, runpy, sys
kernels.plant_kernel({{"late": "gelu_backward"}}.get("{plant}", "{plant}"))
sys.argv[1:] = []
runpy.run_path("{script}", run_name="__main__")
"""
Result = dict[str, Any]
IN_TWO = "-m torch.distributed.run --standalone --nproc-per-node 2"


def settled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, with the training in it, as the current one."""
    monkeypatch.chdir(folder)
    (folder / "train.py").write_text(TRAIN)
    (folder / "kernels.py").write_text(KERNELS)
    return folder


def searched(
    plant: str, *words: str, of: str = "none", more: str = "", how: str = ""
) -> tuple[int, Result]:
    """The status of a search and what it has found.

    ``words`` are its options, ``more`` is said to both trainings, ``how`` to both Pythons.
    """
    commands = [f"{sys.executable} {how} train.py {name} {more}" for name in (plant, of)]
    status = main(["--npu", commands[0], "--bench", commands[1], "-o", "search", *words])
    path = Path("search/result.json")
    return status, json.loads(path.read_text()) if path.exists() else {}


def reproduced(search: str = "search") -> dict[str, int]:
    """The status of the reproduction with the cause and without, by side.

    That of an operator runs in a process in which the kernel is planted, or is not.
    """
    commands = json.loads(Path(search, "bisect.json").read_text())["commands"]
    script = f"{search}/reproduce.py"
    is_call = "It starts a training" not in Path(script).read_text()
    found = {}
    for side, command in commands.items():
        words = [sys.executable, script, *(shlex.split(command) if side == "bench" else [])]
        if is_call:
            plant = command.partition("train.py ")[2].split()[0]
            words = [sys.executable, "-c", _WITH.format(plant=plant, script=script)]
        answer = subprocess.run(words, check=False, capture_output=True, text=True)
        # An exception of Python has the status of a fault.
        assert "step " in answer.stdout or "off by" in answer.stdout, answer.stderr
        found[side] = answer.returncode
    return found
