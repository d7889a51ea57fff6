"""Spellings that libraries and other authors give the same model, beside those made at random."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from msprobe_builder.dump.names import Name
from tests.alignment.respell import (
    Change,
    Recording,
    added_casts,
    chained,
    dropped_calls,
    is_layer,
    modules_renamed,
    other_attributes,
    other_classes,
    other_seed,
    prefixed,
    truth,
    without_calls,
    without_modules,
    without_statistics,
    wrapped,
)
from tests.alignment.score import misses, partners, score
from tests.alignment.test_respelled import original

NANO = {
    "model": "transformer",
    "layers": "h",
    "self_attn": "attn",
    "norm": "ln_f",
    "q_proj": "wq",
    "k_proj": "wk",
    "v_proj": "wv",
    "o_proj": "c_proj",
    "mlp": "ffn",
    "gate_proj": "w1",
    "up_proj": "w3",
    "down_proj": "w2",
    "embed_tokens": "wte",
    "input_layernorm": "ln_1",
    "post_attention_layernorm": "ln_2",
    "lm_head": "head",
}
CLASSES = {
    "LlamaRMSNorm": "T5LayerNorm",
    "LlamaDecoderLayer": "Block",
    "LlamaMLP": "FeedForward",
    "LlamaAttention": "CausalSelfAttention",
    "Linear": "QuantLinear",
}


def named(attributes: dict[str, str], classes: dict[str, str]) -> Change:
    def new(parts: list[str]) -> list[str]:
        path = [attributes.get(part, part) for part in parts[:-1]]
        return [*path, classes.get(parts[-1], parts[-1])]

    return lambda before: modules_renamed(before, new)


def flat(before: Recording) -> Recording:
    """``layers_0`` for ``layers.0``."""

    def new(parts: list[str]) -> list[str]:
        path = re.sub(r"layers\.(\d+)", r"layers_\1", ".".join(parts[:-1]))
        return [*path.split("."), parts[-1]] if path else parts

    return modules_renamed(before, new)


def is_linear(name: Name) -> bool:
    return name.stem.rpartition(".")[2] == "Linear"


def is_last_layer(name: Name) -> bool:
    return ".layers.1." in f"{name.stem}."


# What becomes of the npu side, and of the bench side.
KINDS: dict[str, tuple[Change, Change | None]] = {
    "nanoGPT": (named(NANO, CLASSES), None),
    "blocks": (named({"layers": "blocks"}, {}), None),
    "Lightning, quantised": (
        chained(named({}, {"Linear": "Linear8bitLt"}), prefixed("model")),
        None,
    ),
    "forward module, checkpoint, compile": (
        chained(
            wrapped(is_layer, "_checkpoint_wrapped_module", "CheckpointWrapper"),
            wrapped(is_layer, "_orig_mod", "OptimizedModule"),
            prefixed("_forward_module._orig_mod"),
        ),
        None,
    ),
    "FSDP 1": (
        chained(
            wrapped(is_layer, "_fsdp_wrapped_module", "FullyShardedDataParallel"),
            prefixed("_fsdp_wrapped_module"),
        ),
        None,
    ),
    "LoRA": (wrapped(is_linear, "base_layer", "LoraLinear"), None),
    "DeepSpeed, uneven": (
        chained(
            named(NANO, CLASSES), prefixed("module"), dropped_calls(0.05, 9), added_casts(0.05, 8)
        ),
        None,
    ),
    "other seed": (
        chained(named(NANO, CLASSES), wrapped(is_layer, "inner", "Wrap"), other_seed(5)),
        None,
    ),
    "structure": (
        chained(other_classes, other_attributes, without_statistics, dropped_calls(0.03, 5)),
        without_statistics,
    ),
    "L0 structure": (
        chained(
            *(without_calls, without_statistics, other_classes, other_attributes),
            wrapped(is_layer, "b", "W"),
        ),
        chained(without_calls, without_statistics),
    ),
    "indexes in names": (flat, None),
    "a layer fewer": (chained(without_modules(is_last_layer), named(NANO, CLASSES)), None),
}
MODELS = (
    "llama_statistics",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("vit_statistics", "megatron_tp1pp1", "resnet_statistics")
    ),
)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", KINDS)
def test_spelling(dumps: Path, model: str, kind: str) -> None:
    """All find their partner, but for what misses.yaml counts."""
    change, other = KINDS[kind]
    bench = original(dumps, model)
    npu = change(bench)
    if other is not None:
        bench = other(bench)
    right = {name: first for name, first in truth(npu).items() if first in bench.origin}
    result = score(partners(npu.source(), bench.source()), right, set(npu.origin) - set(right))
    assert len(result.alone) <= misses("spelled").get(model, {}).get(kind, 0), result.alone
    assert not result.wrong
