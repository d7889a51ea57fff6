"""Real dumps under another spelling: all find their partner, but for what misses.yaml counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe_builder.base.options import BuildOptions
from msprobe_builder.dump.names import Name
from tests.alignment.respell import (
    Change,
    Recording,
    added_casts,
    chained,
    dropped_calls,
    is_layer,
    other_attributes,
    other_classes,
    other_seed,
    other_sizes,
    prefixed,
    recording,
    truth,
    without_calls,
    without_modules,
    without_statistics,
    wrapped,
)
from tests.alignment.score import misses, partners, score
from tests.alignment.test_real_pairs import rank
from tests.alignment.trade import traded_lines
from tests.cases import REPEATED

RENAMED = chained(other_classes, other_attributes)
UNEVEN = chained(dropped_calls(0.03, 3), added_casts(0.03, 4))
KINDS: dict[str, Change] = {
    "an attribute in front": prefixed("module"),
    "two attributes in front": prefixed("base_model.model"),
    "a wrapper around each layer": wrapped(is_layer, "_wrapped", "Sharded"),
    "two wrappers around each layer": chained(
        wrapped(is_layer, "inner", "Outer"), wrapped(is_layer, "deep", "Deeper"), prefixed("a.b")
    ),
    "a wrapper around each module": chained(other_classes, wrapped(bool, "base", "Wrap")),
    "other classes": other_classes,
    "other attributes": other_attributes,
    "other names": RENAMED,
    "other names and wrappers": chained(RENAMED, wrapped(is_layer, "base", "Wrap"), prefixed("x")),
    "3 % fewer calls, 3 % more casts": UNEVEN,
    "other names, fewer calls, more casts": chained(RENAMED, UNEVEN),
    "10 % fewer calls": dropped_calls(0.10, 5),
    "other names and seed": chained(RENAMED, other_seed(1)),
    "other names and seed, fewer calls, more casts": chained(RENAMED, other_seed(1), UNEVEN),
    "other names, sizes and seed": chained(RENAMED, other_sizes, other_seed(2)),
    "lines that trade places": traded_lines(0.5, 1),
    "lines that trade places, other names": chained(traded_lines(0.4, 3), RENAMED),
}
LLAMA = "llama_statistics"
MODELS = (
    LLAMA,
    "moe_tp1",
    "llama_structure",
    "megatron_tp1pp1",
    "resnet_statistics",
    "vit_statistics",
    "recompute_tp1pp1",
    "llama_statistics_recompute",
)
MISSES = misses("respelled")
OTHER_MISSES = misses("respelled pairs")
# Of other kinds of models, each of both sides under some other spellings.
RUNS = (
    *("own_llama", "gpt2", "bert", "vit", "t5", "mixtral", "mamba", "mobilenet", "unet"),
    *("towers", "gan", "loops", "distilbert", "dropout", "adapter", "ck_nonre_micro"),
)
SPELLINGS = [kind for kind in KINDS if "attribute" not in kind or kind == "other attributes"]
TURNS = [
    (run, side, SPELLINGS[(5 * place + 7 * (side == "bench") + turn) % len(SPELLINGS)])
    for place, run in enumerate(RUNS)
    for side in ("npu", "bench")
    for turn in (0, 4, 8)
]

# Where a dump tells less: what becomes of both sides.
THIN: dict[str, tuple[Change, Change]] = {
    "structure": (chained(RENAMED, without_statistics), without_statistics),
    "structure, fewer calls, more casts": (
        chained(RENAMED, UNEVEN, without_statistics),
        without_statistics,
    ),
    "structure, lines that trade places": (
        chained(traded_lines(0.3, 6), other_classes, without_statistics),
        without_statistics,
    ),
    "modules alone, other seed": (chained(without_calls, RENAMED, other_seed(7)), without_calls),
    "structure of modules alone": (
        chained(without_calls, without_statistics, other_attributes),
        chained(without_calls, without_statistics),
    ),
}


def original(dumps: Path, name: str) -> Recording:
    return recording(min((dumps / name / "step0").glob("rank*")))


def judge(respelled: Recording, bench: Recording, alone: int = 0, wrong: int = 0) -> None:
    """All find their partner, but for so many that stay alone or get a wrong one."""
    right = {name: first for name, first in truth(respelled).items() if first in bench.origin}
    added = set(respelled.origin) - set(right)
    result = score(partners(respelled.source(), bench.source()), right, added)
    assert len(result.alone) <= alone, result.alone[:10]
    assert len(result.wrong) <= wrong, result.wrong[:10]


# Each kind with the first model, and with a third of the others.
PAIRS = [
    pytest.param(
        *(kind, model),
        marks=() if model == LLAMA or place % 3 == number % 3 else REPEATED,
    )
    for number, kind in enumerate(KINDS)
    for place, model in enumerate(MODELS)
]


@pytest.mark.parametrize(("kind", "model"), PAIRS)
def test_all_find_their_partner(dumps: Path, model: str, kind: str) -> None:
    bench = original(dumps, model)
    judge(KINDS[kind](bench), bench, *MISSES.get(model, {}).get(kind, ()))


@pytest.mark.parametrize(("run", "side", "kind"), TURNS)
def test_all_find_their_partner_in_other_models(
    pairs: Path, run: str, side: str, kind: str
) -> None:
    bench = recording(rank(pairs / run / side))
    judge(KINDS[kind](bench), bench, *OTHER_MISSES.get(f"{run} {side}", {}).get(kind, ()))


@pytest.mark.parametrize("side", ["npu", "bench"])
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("kind", THIN)
def test_all_find_their_partner_where_little_is_known(
    pairs: Path, run: str, side: str, kind: str
) -> None:
    bench = recording(rank(pairs / run / side))
    here, there = (change(bench) for change in THIN[kind])
    judge(here, there, *OTHER_MISSES.get(f"{run} {side}", {}).get(kind, ()))


def test_modules_alone(dumps: Path) -> None:
    bench = without_calls(original(dumps, LLAMA))
    judge(chained(RENAMED, wrapped(is_layer, "base", "Wrap"), other_seed(4))(bench), bench)


@pytest.mark.parametrize("layer", ["layers.0", "layers.2", "layers.3"])
@pytest.mark.parametrize("seed", [True, False])
def test_a_layer_fewer(dumps: Path, layer: str, seed: bool) -> None:
    def is_gone(name: Name) -> bool:
        return f".{layer}." in f"{name.stem}."

    bench = original(dumps, "megatron_tp1pp1")
    change = chained(without_modules(is_gone), RENAMED)
    if seed:
        change = chained(change, other_seed(3))
    judge(change(bench), bench, *MISSES["a layer fewer"])


@pytest.mark.parametrize("run", ["llama_statistics_wrong_attention_scale", "llama_statistics_bf16"])
def test_behind_a_fault_and_in_another_dtype(dumps: Path, run: str) -> None:
    """All calls of the two runs have equal names before the respelling."""
    judge(chained(RENAMED, UNEVEN)(original(dumps, run)), original(dumps, LLAMA))


def test_what_is_recomputed_on_one_side_stays_alone(dumps: Path) -> None:
    npu, bench = original(dumps, "llama_statistics_recompute"), original(dumps, LLAMA)
    again = {name for name, record in npu.data.items() if record.get("is_recompute")}
    respelled = RENAMED(npu)
    found = partners(respelled.source(), bench.source())
    assert len(again) > 50
    paired = {respelled.origin[name] for name in found if name in respelled.origin}
    assert paired == set(npu.origin) - again


def test_exact_leaves_it_at_names(dumps: Path) -> None:
    bench = original(dumps, LLAMA)
    respelled = prefixed("module")(bench)
    found = partners(respelled.source(), bench.source(), BuildOptions(exact=True))
    assert all(name == other for name, other in found.items())
    assert not [name for name in found if name.startswith("Module.")]


def test_equal_names_keep_their_partners(dumps: Path) -> None:
    """What a fault has changed is compared all the same, node by node."""
    wrong = original(dumps, "llama_statistics_wrong_attention_scale").source()
    right = original(dumps, LLAMA).source()
    found = partners(wrong, right)
    assert found == partners(wrong, right, BuildOptions(exact=True))
    assert len(found) > 600
