"""A training step against inference on the same words: forward only, without gradients."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from msprobe_builder import BuildConfig, build
from msprobe_builder.command.main import main
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from msprobe_builder.facts.wording import tell
from msprobe_collector import PrecisionDebugger

WIDTH, HEADS, WORDS = 32, 4, 50
SIZE = WIDTH // HEADS
PROMPT = [3, 7, 1, 9, 12, 40, 22, 8]


class Attention(nn.Module):
    """As a training writes it: three projections, batches."""

    scale = SIZE**-0.5

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            one(x).view(batch, length, HEADS, SIZE).transpose(1, 2)
            for one in (self.q_proj, self.k_proj, self.v_proj)
        )
        weights = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        later = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        weights = torch.softmax(weights.masked_fill(later, float("-inf")), -1)
        return self.o_proj(torch.matmul(weights, v).transpose(1, 2).reshape(batch, length, WIDTH))


class Served(nn.Module):
    """As a server writes it: one projection, tokens without a batch, a fused kernel."""

    scale = SIZE**-0.5

    def __init__(self) -> None:
        super().__init__()
        self.qkv_proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            one.view(len(x), HEADS, SIZE).transpose(0, 1)
            for one in self.qkv_proj(x).split(WIDTH, -1)
        )
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
        return self.o_proj(found.transpose(0, 1).reshape(len(x), WIDTH))


class Layer(nn.Module):
    def __init__(self, attention: type[nn.Module]) -> None:
        super().__init__()
        self.norm, self.self_attn = nn.LayerNorm(WIDTH), attention()
        self.mlp_norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64, bias=False)
        self.down = nn.Linear(64, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.norm(x))
        return x + self.down(F.silu(self.up(self.mlp_norm(x))))


class Model(nn.Module):
    def __init__(self, attention: type[nn.Module] = Attention) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer(attention) for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def trained() -> Model:
    torch.manual_seed(0)
    return Model()


def served() -> Model:
    """The same weights as a server holds them."""
    weights = trained().state_dict()
    for number in range(2):
        before = f"layers.{number}.self_attn."
        parts = [weights.pop(f"{before}{one}_proj.weight") for one in "qkv"]
        weights[f"{before}qkv_proj.weight"] = torch.cat(parts)
    model = Model(Served)
    model.load_state_dict(weights)
    return model


def record(folder: Path, model: Model, *, trains: bool) -> Path:
    words = torch.tensor(PROMPT)
    has_batch = isinstance(model.layers[0].self_attn, Attention)
    debugger = PrecisionDebugger(dump_path=str(folder), task="statistics", level="mix")
    model.train(trains)
    with torch.set_grad_enabled(trains):
        debugger.start(model)
        logits = model(words[None] if has_batch else words)
        if trains:
            logits.logsumexp(-1).sum().backward()
        debugger.stop()
    debugger.step()
    debugger.close()
    return folder


def compared(folder: Path, npu: Path, bench: Path) -> tuple[Verdict, Path]:
    path = build(BuildConfig(npu, bench), folder / "out", workers=1).path
    with opened(path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return verdict, path


@pytest.mark.parametrize("turned", [False, True])
def test_evaluation_of_a_training_is_clean(tmp_path: Path, turned: bool) -> None:
    sides = [
        record(tmp_path / "train", trained(), trains=True),
        record(tmp_path / "eval", trained(), trains=False),
    ]
    verdict, _ = compared(tmp_path, *(reversed(sides) if turned else sides))
    assert verdict.conclusion == "clean"
    assert "gradients of parameters were not compared" in tell(verdict.said, "en")


@pytest.mark.parametrize("turned", [False, True])
def test_what_evaluation_does_otherwise_is_named(tmp_path: Path, turned: bool) -> None:
    wrong = trained()
    wrong.layers[1].self_attn.scale = 0.25  # type: ignore[union-attr]
    sides = [
        record(tmp_path / "train", trained(), trains=True),
        record(tmp_path / "eval", wrong, trains=False),
    ]
    verdict, _ = compared(tmp_path, *(reversed(sides) if turned else sides))
    best = verdict.suspects[0]
    assert (verdict.conclusion, best.node) == ("fault", "Tensor.__mul__.1.forward")
    assert "0.25" in tell(verdict.said, "en")


def test_a_branch_that_is_cut_off_is_still_accused(tmp_path: Path) -> None:
    class Cut(Attention):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.detach())

    right, wrong = trained(), trained()
    wrong.layers[1].self_attn.__class__ = Cut
    sides = (
        record(tmp_path / name, one, trains=True) for name, one in (("a", wrong), ("b", right))
    )
    verdict, _ = compared(tmp_path, *sides)
    assert verdict.conclusion != "clean"
    assert "gradient" in {one.cause for one in verdict.suspects} or any(
        "cut off from training" in one.evidence for one in verdict.suspects
    )


def test_a_server_of_other_shapes_and_names_is_matched_by_evidence(tmp_path: Path) -> None:
    verdict, path = compared(
        tmp_path,
        record(tmp_path / "serve", served(), trains=False),
        record(tmp_path / "train", trained(), trains=True),
    )
    assert verdict.conclusion != "fault"
    with closing(sqlite3.connect(path)) as connection:
        query = (
            "SELECT name, matched, grade FROM node_view WHERE side = 'npu' AND name IN"
            " ('Module.embed.Embedding.forward.0', 'Module.head.Linear.forward.0')"
            " OR side = 'npu' AND name LIKE 'Module.layers._.%.Linear.forward.0'"
        )
        found = {name: (matched, grade) for name, matched, grade in connection.execute(query)}
    for name in ("embed.Embedding", "head.Linear", "layers.1.down.Linear", "layers.0.up.Linear"):
        full = f"Module.{name}.forward.0"
        assert found[full] == (full, "ok")
    assert found["Module.layers.1.self_attn.o_proj.Linear.forward.0"][1] == "ok"


def test_a_server_with_another_scale_is_seen_where_it_has_it(tmp_path: Path) -> None:
    wrong = served()
    wrong.layers[1].self_attn.scale = 0.25  # type: ignore[union-attr]
    verdict, path = compared(
        tmp_path,
        record(tmp_path / "serve", wrong, trains=False),
        record(tmp_path / "train", trained(), trains=True),
    )
    with closing(sqlite3.connect(path)) as connection:
        query = (
            "SELECT name FROM node_view WHERE side = 'npu' AND error > 0.01"
            " AND grade != 'unmatched' ORDER BY seq"
        )
        first = [name for (name,) in connection.execute(query) if "layers.0" not in name]
    assert verdict.conclusion != "clean"
    assert any("layers.1.self_attn" in name or "scaled_dot" in name for name in first[:4])


class Cached(Served):
    """As a server that takes a prompt chunk by chunk, with a cache of what came before."""

    def __init__(self) -> None:
        super().__init__()
        self.keys, self.values = torch.empty(HEADS, 0, SIZE), torch.empty(HEADS, 0, SIZE)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            one.view(len(x), HEADS, SIZE).transpose(0, 1)
            for one in self.qkv_proj(x).split(WIDTH, -1)
        )
        before = self.keys.shape[1]
        self.keys, self.values = torch.cat([self.keys, k], 1), torch.cat([self.values, v], 1)
        seen = torch.ones(len(x), before + len(x), dtype=torch.bool).tril(before)
        found = F.scaled_dot_product_attention(q, self.keys, self.values, seen, scale=self.scale)
        return self.o_proj(found.transpose(0, 1).reshape(len(x), WIDTH))


def served_in_chunks(folder: Path, chunks: Sequence[int], scale: float = Served.scale) -> Path:
    """The dump of a server's passes, joined."""
    model = served()
    for layer in model.layers:
        layer.self_attn.__class__ = Cached
        attention: Any = layer.self_attn
        attention.keys, attention.values = torch.empty(HEADS, 0, SIZE), torch.empty(HEADS, 0, SIZE)
    model.layers[1].self_attn.scale = scale  # type: ignore[union-attr]
    debugger = PrecisionDebugger(dump_path=str(folder / "chunks"), level="mix")
    with torch.no_grad():
        debugger.start(model)
        for part in torch.tensor(PROMPT).split(list(chunks)):
            model(part)
        debugger.stop()
    debugger.step()
    debugger.close()
    joined = folder / "joined" / "step0" / "rank"
    assert main(["join-chunks", str(folder / "chunks" / "step0" / "rank"), "-o", str(joined)]) == 0
    return folder / "joined"


@pytest.mark.parametrize("chunks", [(3, 3, 2), (4, 4), (1,) * 8, (7, 1), (2, 6)])
def test_a_prompt_in_chunks_is_the_one_pass_of_a_training(
    tmp_path: Path, chunks: tuple[int, ...]
) -> None:
    verdict, path = compared(
        tmp_path,
        served_in_chunks(tmp_path, chunks),
        record(tmp_path / "train", trained(), trains=True),
    )
    assert verdict.conclusion != "fault"
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT name, grade, error FROM node_view WHERE side = 'npu'"
        found = {name: (grade, error) for name, grade, error in connection.execute(query)}
    modules = [
        "embed.Embedding",
        "head.Linear",
        *(f"layers.{n}.norm.LayerNorm" for n in "01"),
    ]
    modules += [
        f"layers.{n}.{one}.Linear" for n in "01" for one in ("up", "down", "self_attn.o_proj")
    ]
    for name in modules:
        grade, error = found[f"Module.{name}.forward.0"]
        assert grade == "ok", name
        assert error < 1e-5, name


def test_another_scale_in_chunks_is_seen_where_it_is(tmp_path: Path) -> None:
    _, path = compared(
        tmp_path,
        served_in_chunks(tmp_path, (3, 3, 2), scale=0.25),
        record(tmp_path / "train", trained(), trains=True),
    )
    with closing(sqlite3.connect(path)) as connection:
        query = (
            "SELECT name FROM node_view WHERE side = 'npu' AND error > 0.001"
            " AND grade != 'unmatched' ORDER BY seq"
        )
        first = [name for (name,) in connection.execute(query)]
    assert first
    assert not any("layers.0" in name or "embed" in name for name in first)
    assert "layers.1" in first[0]


def test_joined_numbers_are_those_of_the_whole(tmp_path: Path) -> None:
    joined = served_in_chunks(tmp_path, (3, 1, 4))
    found = json.loads((joined / "step0" / "rank" / "dump.json").read_text())["data"]
    with torch.no_grad():
        x = trained().embed(torch.tensor(PROMPT))
    [made] = found["Functional.embedding.0.forward"]["output"]
    assert made["shape"] == [8, WIDTH]
    for name, right in (("Max", x.max()), ("Min", x.min()), ("Mean", x.mean()), ("Norm", x.norm())):
        assert made[name] == pytest.approx(right.item(), rel=1e-5, abs=1e-7), name


def test_what_is_no_prompt_in_chunks_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path / "one", served(), trains=False)
    folder = str(tmp_path / "one" / "step0" / "rank")
    assert main(["join-chunks", folder, "-o", str(tmp_path / "out")]) == 1
    assert "no model that is called more than once" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
