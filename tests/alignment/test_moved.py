"""Parts of a model that one author calls in another order, or puts a residual connection into."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from msprobe_builder.align.evidence.words import Words
from msprobe_builder.base.texts import Texts
from msprobe_builder.pipeline.compare import read_rank
from tests.alignment.respell import Recording, recording, without_calls, without_statistics
from tests.alignment.score import partners
from tests.collector.recording import record


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 48), nn.Linear(24, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide, gate = self.up(self.norm(x)).chunk(2, dim=-1)
        return x + self.down(torch.relu(gate) * wide)


class Piece(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.begin, self.wide, self.gate = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 24)
        self.narrow, self.drop = nn.Linear(24, 8), nn.Dropout(0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, y = self.begin(x), x
        return self.drop(self.narrow(self.gate(x).clamp(min=0.0) * self.wide(x))) + y


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Piece() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Tower(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.entry, self.encoder, self.exit = nn.Linear(width, 8), Encoder(), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.exit(self.encoder(self.entry(x))).mean(1)


class Towers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = Tower(5), Tower(6)

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        return self.left(image) @ self.right(text).T


class Flat(nn.Module):
    """The same without modules around the towers, the other one first."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.pixels = nn.Linear(6, 8), nn.Linear(5, 8)
        self.reading = nn.ModuleList(Block() for _ in range(3))
        self.seeing = nn.ModuleList(Block() for _ in range(3))
        self.end_words, self.end_pixels = nn.LayerNorm(8), nn.LayerNorm(8)

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        text = self.words(text)
        for block in self.reading:
            text = block(text)
        text = self.end_words(text).mean(1)
        image = self.pixels(image)
        for block in self.seeing:
            image = block(image)
        return self.end_pixels(image).mean(1) @ text.T


SAME = {"left.entry": "pixels", "right.entry": "words", "left.exit": "end_pixels"}
SAME |= {"right.exit": "end_words"}
SAME |= {f"left.encoder.blocks.{n}": f"seeing.{n}" for n in range(3)}
SAME |= {f"right.encoder.blocks.{n}": f"reading.{n}" for n in range(3)}


def recorded(folder: Path, model: nn.Module, *shapes: tuple[int, ...]) -> Recording:
    tensors = [torch.randn(shape) for shape in shapes]

    def step() -> None:
        model(*tensors).square().mean().backward()

    return recording(record(folder, step, model).directory)


def path(name: str) -> str:
    """The attributes of a module, without its class and the number of the call."""
    return ".".join(name.split(".")[1:-3])


@pytest.mark.parametrize("is_structure", [False, True])
def test_towers_in_another_order(tmp_path: Path, is_structure: bool) -> None:
    torch.manual_seed(1)
    npu = recorded(tmp_path / "a", Towers(), (2, 4, 5), (2, 7, 6))
    torch.manual_seed(2)
    bench = recorded(tmp_path / "b", Flat(), (2, 4, 5), (2, 7, 6))
    if is_structure:
        npu, bench = without_statistics(npu), without_statistics(bench)
    found = {
        path(name): path(other)
        for name, other in partners(npu.source(), bench.source()).items()
        if name.startswith("Module.") and ".forward." in name
    }
    assert {name: found.get(name) for name in SAME} == SAME
    for name, other in found.items():
        stem = name.rpartition(".")[0]
        assert stem not in SAME or other.startswith(SAME[stem]), (name, other)


def test_a_tower_that_goes_first_on_one_side_is_matched_as_a_whole(pairs: Path) -> None:
    """`towers`: image and text, each author in another order; layers without a partner around it.

    By shapes alone: what stands in two layers alike is far better than nothing else by itself.
    """
    npu, bench = (
        without_statistics(recording(pairs / "towers" / side / "step0" / "rank0"))
        for side in ("npu", "bench")
    )
    found = partners(npu.source(), bench.source())
    same = {
        "patch.Conv2d": "vision_model.patch_embedding.Conv2d",
        "ln_post.LayerNorm": "vision_model.post_layernorm.LayerNorm",
        "ln_final.LayerNorm": "text_model.final_layer_norm.LayerNorm",
    }
    for own, other in (("visual", "vision_model"), ("text", "text_model")):
        for layer, norm in ((0, 1), (0, 2), (1, 1), (1, 2)):
            theirs = f"{other}.encoder.layers.{layer}.layer_norm{norm}"
            same[f"{own}.{layer}.ln_{norm}.LayerNorm"] = f"{theirs}.LayerNorm"
    for own, other in same.items():
        assert found.get(f"Module.{own}.forward.0") == f"Module.{other}.forward.0"


class Inside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(torch.tanh(self.first(x)))


class Beside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(torch.tanh(self.one(x)))


class Chain(nn.Module):
    def __init__(self, block: type[nn.Module], *, adds: bool) -> None:
        super().__init__()
        self.steps = nn.ModuleList(block() for _ in range(3))
        self.adds = adds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in self.steps:
            x = x + step(x) if self.adds else step(x)
        return x


@pytest.mark.parametrize("seed", [1, 2])
def test_without_calls_an_addition_at_the_end_is_seen(tmp_path: Path, seed: int) -> None:
    """One block adds what it is given, around the other one its host does: no counterparts."""
    torch.manual_seed(1)
    npu = recorded(tmp_path / "a", Chain(Inside, adds=False), (2, 4, 8))
    torch.manual_seed(seed)
    bench = recorded(tmp_path / "b", Chain(Beside, adds=True), (2, 4, 8))
    found = partners(without_calls(npu).source(), without_calls(bench).source())
    for number in range(3):
        assert found[f"Module.steps.{number}.first.Linear.forward.0"] == (
            f"Module.steps.{number}.one.Linear.forward.0"
        )
        assert f"Module.steps.{number}.Inside.forward.0" not in found


class Indexed(nn.Module):
    """Norms named by letter and number, beside a sequence that has numbers alone."""

    def __init__(self, *, names: bool) -> None:
        super().__init__()
        if names:
            self.n0, self.n1, self.n2 = nn.LayerNorm(8), nn.LayerNorm(8), nn.LayerNorm(8)
            self.norms = [self.n0, self.n1, self.n2]
        else:
            self.norms = [nn.LayerNorm(8) for _ in range(3)]
            for number, norm in enumerate(self.norms, start=1):
                self.add_module(str(number), norm)
        self.names = names

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm in self.norms:
            x = torch.tanh(norm(x)) if self.names else norm(x).mul(0.5).tanh()
        return x


def test_a_place_in_a_list_is_no_word(tmp_path: Path) -> None:
    """The norm ``n1`` is no more like the module ``1`` than ``n0`` is."""
    sides = [recorded(tmp_path / str(one), Indexed(names=one), (2, 4, 8)) for one in (True, False)]
    npu, bench = (read_rank(side.source(), texts=Texts())[0].tree for side in sides)
    own = [npu.names.index(f"Module.n{number}.LayerNorm.forward.0") for number in range(2)]
    other = bench.names.index("Module.1.LayerNorm.forward.0")
    first, second = Words(npu).agreement(
        np.array(own), Words(bench), np.array([other]), np.zeros((2, 1), dtype=bool)
    )
    assert first == second


class Named(nn.Module):
    """The first block has a name of its own, the others are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Block()
        self.others = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.others:
            x = block(x)
        return x


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stack = nn.ModuleList(Piece() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.stack:
            x = block(x)
        return x


@pytest.mark.parametrize("is_structure", [False, True])
def test_numbers_tell_nothing_where_one_block_has_a_name(
    tmp_path: Path, is_structure: bool
) -> None:
    torch.manual_seed(1)
    npu = recorded(tmp_path / "a", Named(), (2, 4, 8))
    torch.manual_seed(2)
    bench = recorded(tmp_path / "b", Counted(), (2, 4, 8))
    if is_structure:
        npu, bench = without_statistics(npu), without_statistics(bench)
    found = {
        path(name): path(other)
        for name, other in partners(npu.source(), bench.source()).items()
        if name.endswith(".Block.forward.0")
    }
    assert found == {"first": "stack.0", "others.0": "stack.1", "others.1": "stack.2"}


class Loop(nn.Module):
    """Makes a mask of each kind by one line, in an order that may be that of a set."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        super().__init__()
        self.kinds = kinds
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        masks = {}
        for kind in self.kinds:
            masks[kind] = torch.ones(6, 6).tril({"whole": 0, "near": -2}[kind]).exp()
        for layer, kind in zip(self.layers, ("near", "whole"), strict=True):
            x = layer(x) @ masks[kind]
        return x


def test_calls_of_one_line_go_by_their_values_where_a_loop_runs_in_another_order(
    tmp_path: Path,
) -> None:
    def side(*kinds: str) -> Recording:
        torch.manual_seed(3)
        model = Loop(kinds)
        x = torch.randn(4, 6)
        step = record(tmp_path / kinds[0], lambda: model(x).sum().backward(), model)
        return recording(step.directory)

    found = partners(side("whole", "near").source(), side("near", "whole").source())
    for stem in ("Tensor.tril", "Tensor.exp"):
        assert found[f"{stem}.0.forward"] == f"{stem}.1.forward"
        assert found[f"{stem}.1.forward"] == f"{stem}.0.forward"
    assert found["Tensor.__matmul__.0.forward"] == "Tensor.__matmul__.0.forward"
