"""What changes nothing of what happened changes nothing of the verdict."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cases import by_turns
from tests.properties.conftest import Tell
from tests.properties.rewriting import (
    Dump,
    Rewrite,
    alias,
    named,
    relabelled,
    rewritten,
    scaled,
    with_unrelated_calls,
)
from tests.properties.telling import Told, are_inverse, called, exchanged, firm, on_ranks, sideless

Folders = Callable[[str], tuple[Path, Path]]
CLEAN = 1
LABELS = "transformers/bf_label_shift"
UNRECORDED = "transformers/moe_norm"

# One of each kind: an argument, an output, a call that one side lacks, backward, nothing wrong;
# on the same device, with noise in each kernel, and in half precision against single.
CASES = [
    f"transformers/{name}"
    for name in (
        *("attn_scale", "gelu_tanh", "gqa_api", "grad_accum", "moe_norm", "neg_noise"),
        *("n6_ln_eps", "n6_weight_1e3", "n6_neg_mixtral"),
        *("bf_resid_twice", "bf_label_shift", "bf_neg_gpt2"),
    )
]

ALIASES = {
    "torch": {
        "Tensor.__mul__": "Torch.mul",
        "Tensor.__add__": "Torch.add",
        "Torch.matmul": "Tensor.__matmul__",
        "Functional.softmax": "Torch.softmax",
        "Tensor.transpose": "Torch.transpose",
        "Tensor.reshape": "Torch.reshape",
        "Torch.rsqrt": "Tensor.rsqrt",
        "Tensor.pow": "Torch.pow",
        "Tensor.mean": "Torch.mean",
    },
    "mindspore": {
        "Functional.layer_norm": "Primitive.LayerNorm",
        "Functional.linear": "Primitive.Dense",
        "Torch.matmul": "Primitive.BatchMatMul",
        "Functional.softmax": "Primitive.Softmax",
        "Tensor.__add__": "Primitive.Add",
        "Tensor.__mul__": "Primitive.Mul",
        "Functional.silu": "Primitive.SiLU",
        "Functional.cross_entropy": "Primitive.CrossEntropy",
        "Functional.embedding": "Primitive.Gather",
        "Functional.dropout": "Primitive.Dropout",
        "Tensor.transpose": "Primitive.Transpose",
        "Tensor.reshape": "Primitive.Reshape",
    },
    "npu": {
        "Torch.matmul": "NPU.npu_bmmV2",
        "Functional.linear": "NPU.npu_linear",
        "Functional.layer_norm": "NPU.npu_layer_norm_eval",
        "Functional.dropout": "NPU._npu_dropout",
    },
}


def needs(reason: str, *values: str) -> object:
    """Values of parameters for which the product has yet to become what the test says."""
    return pytest.param(*values, marks=pytest.mark.xfail(reason=reason, strict=True))


@pytest.mark.parametrize(("case", "library"), by_turns(CASES, ALIASES))
def test_names_of_another_library(
    library: str, case: str, recorded: Folders, tell: Tell, tmp_path: Path
) -> None:
    npu, bench = recorded(case)
    new = alias(ALIASES[library])
    assert both(tell, npu, bench, tmp_path, named(new)) == called(tell(npu, bench), new)


@pytest.mark.parametrize(("case", "power"), by_turns(CASES, [-2, 3]))
def test_other_units(case: str, power: int, recorded: Folders, tell: Tell, tmp_path: Path) -> None:
    npu, bench = recorded(case)
    told = both(tell, npu, bench, tmp_path, scaled(power))
    assert firm(told) == firm(tell(npu, bench))


@pytest.mark.parametrize(
    "case",
    [
        *(one for one in CASES if one not in (LABELS, UNRECORDED)),
        needs("against a reference in half precision what follows labels is accused too", LABELS),
        needs("a call of one side alone, or its module that does what nobody records", UNRECORDED),
    ],
)
def test_sides_exchanged(case: str, recorded: Folders, tell: Tell) -> None:
    npu, bench = recorded(case)
    told, turned = tell(npu, bench), tell(bench, npu)
    assert firm(sideless(turned)) == firm(exchanged(told))
    for one, other in zip(firm(told).suspects, firm(turned).suspects, strict=True):
        if one.cause == other.cause and one.error and other.error:
            assert are_inverse(float(one.error), float(other.error)), one.node


OTHER_WORDS = {"layers": "blocks", "mlp": "ffn", "self_attn": "attention", "lm_head": "head"}


def test_modules_of_the_reference_called_otherwise(dumps: Path, tell: Tell, tmp_path: Path) -> None:
    """A gradient that is wrong alone is a fault also where modules there have other names."""
    bench = dumps / "llama_statistics"
    npu = rewritten(bench, tmp_path / "npu", gradient_scaled("layers.1.mlp.up_proj", 1.5))
    renamed = rewritten(bench, tmp_path / "bench", named(in_other_words))
    before, told = tell(npu, bench), tell(npu, renamed)
    assert "up_proj" in before.suspects[0].node
    assert before.suspects[0].strength == "strong"
    assert told.suspects == before.suspects


def in_other_words(name: str) -> str:
    """The name of a call when another author has chosen the names of modules."""
    return ".".join(OTHER_WORDS.get(part, part) for part in name.split("."))


def gradient_scaled(module: str, factor: float) -> Rewrite:
    """The gradient of one module's parameters times a factor, and nothing else."""

    def of(tensor: Any) -> Any:
        numbers = {key: tensor[key] * factor for key in ("Max", "Min", "Mean", "Norm")}
        return {**tensor, **numbers}

    def rewrite(dump: Dump) -> Dump:
        data = dict(dump.data)
        for name, record in data.items():
            if module in name and name.endswith("parameters_grad"):
                data[name] = {key: [of(one) for one in tensors] for key, tensors in record.items()}
        return replace(dump, data=data)

    return rewrite


@pytest.mark.parametrize("case", CASES)
def test_unrelated_calls(case: str, recorded: Folders, tell: Tell, tmp_path: Path) -> None:
    npu, bench = recorded(case)
    before = tell(npu, bench)
    told = both(tell, npu, bench, tmp_path, with_unrelated_calls((0.0, 0.35, 0.7, 1.0)))
    assert (told.conclusion, told.suspects) == (before.conclusion, before.suspects)
    assert before.roles <= told.roles
    assert before.partners <= told.partners
    assert {role for _, role in told.roles - before.roles} <= {CLEAN}


@pytest.mark.parametrize(
    ("run", "ranks"),
    by_turns(["ddp4", "sendrecv4", "collectives4"], [(3, 0, 1, 2), (1, 0, 3, 2)]),
)
def test_ranks_called_otherwise(
    run: str, ranks: tuple[int, ...], dumps: Path, tell: Tell, tmp_path: Path
) -> None:
    bench = dumps / f"{run}_statistics"
    npu = shutil.copytree(bench, tmp_path / "one off", ignore=shutil.ignore_patterns("rank2"))
    for rank in bench.glob("step*/rank2"):
        off = dumps / f"{run}_statistics_wrong_attention_scale" / rank.relative_to(bench)
        place = npu / rank.relative_to(bench)
        if off.exists():
            shutil.copytree(off, place)
        else:
            rewritten(rank, place, scaled(1))
    before = tell(npu, bench)
    assert {one.rank for one in before.suspects} == {2}
    told = tell(
        relabelled(npu, tmp_path / "npu", ranks), relabelled(bench, tmp_path / "bench", ranks)
    )
    assert told == on_ranks(before, ranks)


def both(tell: Tell, npu: Path, bench: Path, folder: Path, rewrite: Rewrite) -> Told:
    """What is told when both sides are rewritten."""
    return tell(
        rewritten(npu, folder / "npu", rewrite), rewritten(bench, folder / "bench", rewrite)
    )
