"""Which faults are planted where; those held out are never looked at while rules are made."""

from __future__ import annotations

from dataclasses import replace

from tests.faults.architectures.catalogue import ARCHITECTURES
from tests.faults.case import (
    AUTOCAST,
    FP16,
    HALF,
    KERNELS,
    NOISE,
    RECOMPUTED,
    REFERENCE_KERNELS,
    REFERENCE_RECOMPUTED,
    SAME,
    Case,
    of_all_kinds,
)
from tests.faults.eighteenth_cases import OF_EIGHTEENTH
from tests.faults.kept_cases import OF_FIFTEENTH
from tests.faults.nineteenth_cases import OF_NINETEENTH
from tests.faults.seventeenth_cases import OF_SEVENTEENTH
from tests.faults.unseen_cases import (
    OF_FIFTH,
    OF_SEVENTH,
    OF_SIXTH,
    OF_TENTH,
    OF_THIRTEENTH,
)

FAULTS = [
    Case("llama", "rms_epsilon", 1),
    Case("llama", "rotary_sign", 0),
    Case("llama", "head_order", 1),
    Case("llama", "attention_scale", 1),
    Case("llama", "mask_missing", 0),
    Case("llama", "mask_shifted"),
    Case("llama", "softmax_half", 1),
    Case("llama", "dead_gradient", 1),
    Case("llama", "custom_gradient", direction="backward"),
    Case("llama", "gate_and_up_swapped", 1),
    Case("llama", "activation", 1),
    Case("llama", "residual_missing", 0),
    Case("llama", "rotary_base"),
    Case("llama", "embedding_scale"),
    Case("llama", "weight_changed"),
    Case("llama", "other_data"),
    Case("llama", "loss_summed"),
    Case("llama", "loss_not_averaged"),
    Case("gpt2", "norm_epsilon", 1),
    Case("gpt2", "bias_missing", 1),
    Case("gpt2", "keys_and_values_swapped", 1),
    Case("gpt2", "not_causal", 2),
    Case("gpt2", "gelu_variant", 1),
    Case("gpt2", "half_overflow", 0),
    Case("gpt2", "not_a_number", 2),
    Case("gpt2", "position_offset"),
    Case("gpt2", "weight_changed"),
    Case("gpt2", "loss_summed"),
    Case("gpt2", "gradient_scaled", direction="backward"),
    Case("moe", "router_temperature", 1),
    Case("moe", "router_normalisation", 0),
    Case("moe", "experts_swapped", 1),
    Case("moe", "other_labels"),
    Case("moe", "gradient_scaled", direction="backward"),
    Case("vit", "norm_skipped", 1),
    Case("vit", "kernel_scale", 1),
    Case("vit", "layer_scale_missing", 0),
    Case("vit", "dropout_left_on", 1),
    Case("vit", "pixel_scale"),
    Case("vit", "positions_reversed"),
    Case("vit", "mean_pooled"),
    Case("resnet", "batch_norm_epsilon", 1),
    Case("resnet", "padding_mode", 1),
    Case("resnet", "batch_norm_frozen", 2),
    Case("resnet", "slope_leaks", 1),
    Case("resnet", "pool_average"),
    Case("resnet", "weight_changed"),
    Case("lstm", "forget_bias"),
    Case("lstm", "cell_unbounded"),
    Case("lstm", "state_not_zero"),
]


_LARGE = (("width", 96), ("layers", 3))
HELD_OUT = [
    Case("t5", "norm_by_mean"),
    Case("t5", "bias_clipped", 1),
    Case("t5", "bias_not_added", 0),
    Case("t5", "mask_weak", 1),
    Case("t5", "softmax_dimension", 1),
    Case("t5", "memory_shifted", 1),
    Case("t5", "half_width", 1),
    Case("t5", "residual_scaled", 0),
    Case("t5", "head_scale"),
    Case("t5", "weight_changed"),
    Case("t5", "gradient_scaled", direction="backward"),
    Case("t5", "loss_summed"),
    Case("unet", "group_count", 2),
    Case("unet", "gain_and_shift_swapped", 3),
    Case("unet", "gain_not_centred", 1),
    Case("unet", "upsampling", 1),
    Case("unet", "skip_dropped", 0),
    Case("unet", "pooled_by_maximum"),
    Case("unet", "weight_changed"),
    Case("unet", "other_data"),
    Case("llama", "rms_epsilon", 2, seed=7, size=_LARGE),
    Case("llama", "attention_scale", 0, seed=7, size=_LARGE),
    Case("llama", "custom_gradient", seed=7, size=_LARGE, direction="backward"),
    Case("llama", "mask_missing", 2, seed=7, size=_LARGE),
    Case("gpt2", "bias_missing", 2, seed=8, size=_LARGE),
    Case("gpt2", "gelu_variant", 0, seed=8, size=_LARGE),
    Case("moe", "router_temperature", 0, seed=9, size=_LARGE),
    Case("vit", "layer_scale_missing", 2, seed=10, size=_LARGE),
    Case("resnet", "slope_leaks", 0, seed=11, size=(("width", 24), ("layers", 4))),
    Case("lstm", "forget_bias", seed=12, size=(("width", 48),)),
]

# Written when the rules stood; the first half was looked at afterwards, the second was not.
SECOND = [
    Case("scan", "conv_not_causal", 0, seed=31),
    Case("scan", "step_not_positive", 1, seed=32),
    Case("scan", "step_not_applied", 0, seed=33),
    Case("scan", "state_forgotten", 1, seed=34),
    Case("scan", "skip_missing", 0, seed=35),
    Case("scan", "gate_activation", 1, seed=36),
    Case("scan", "final_epsilon", seed=37),
    Case("scan", "gradient_scaled", direction="backward", seed=38),
    Case("scan", "weight_changed", seed=39, size=(("width", 40), ("layers", 3))),
    Case("recommender", "bag_mode", seed=41),
    Case("recommender", "counts_not_logged", seed=42),
    Case("recommender", "hash_offset", seed=43),
    Case("recommender", "interaction_diagonal", seed=44),
    Case("recommender", "dense_dropped", seed=45),
    Case("recommender", "loss_summed", seed=46),
    Case("recommender", "other_data", seed=47),
    Case("tagger", "dropout_higher", seed=51),
    Case("tagger", "start_of_ones", seed=52),
    Case("tagger", "directions_added", seed=53),
    Case("tagger", "padding_attended", seed=54),
    Case("tagger", "weights_dim", seed=55),
    Case("tagger", "loss_not_averaged", seed=56),
]
THIRD = [
    Case("routed", "window_longer", 1, seed=61),
    Case("routed", "scale_by_width", 0, seed=62),
    Case("routed", "weights_not_normalised", 1, seed=63),
    Case("routed", "expert_unweighted", 0, seed=64),
    Case("routed", "expert_dropped", 1, seed=65),
    Case("routed", "logits_cooled", seed=66),
    Case("routed", "weight_changed", seed=67, size=(("width", 48), ("experts", 6))),
    Case("depthwise", "dilated", 1, seed=71),
    Case("depthwise", "clipped_at_six", 0, seed=72),
    Case("depthwise", "squeezed_by_maximum", 2, seed=73),
    Case("depthwise", "gain_squared", 1, seed=74),
    Case("depthwise", "mean_not_subtracted", seed=75),
    Case("depthwise", "corner_pooled", seed=76),
    Case("depthwise", "gradient_scaled", direction="backward", seed=77),
    Case("tied", "queries_not_normal", 1, seed=81),
    Case("tied", "cap_lower", 0, seed=82),
    Case("tied", "slopes_steeper", 2, seed=83),
    Case("tied", "weights_rounded", 1, seed=84),
    Case("tied", "slope_wrong", direction="backward", seed=85),
    Case("tied", "inner_overflows", 1, seed=86),
    Case("tied", "divided_by_zero", 2, seed=87),
    Case("tied", "words_not_scaled", seed=88),
    Case("tied", "head_detached", seed=89),
    Case("tied", "loss_summed", seed=90, size=(("width", 60), ("layers", 4))),
]


def second() -> list[Case]:
    """New architectures that were looked at once the rules stood."""
    return of_all_kinds(SECOND, ("scan", "recommender", "tagger"), seed=30)


def third() -> list[Case]:
    """New architectures that were never looked at."""
    return of_all_kinds(THIRD, ("routed", "depthwise", "tied"), seed=60)


FOURTH = [
    Case("latent", "latent_epsilon", 1, seed=101),
    Case("latent", "latent_base", 0, seed=102),
    Case("latent", "latent_not_normal", 1, seed=103),
    Case("latent", "latent_scale", 0, seed=104),
    Case("latent", "router_softmax", 1, seed=105),
    Case("latent", "shared_dropped", 0, seed=106, size=(("width", 64), ("layers", 3))),
    Case("latent", "states_detached", seed=107),
    Case("latent", "gradient_scaled", direction="backward", seed=108),
    Case("modulated", "shift_and_scale_swapped", 1, seed=111),
    Case("modulated", "modulation_not_centred", 0, seed=112),
    Case("modulated", "gate_missing", 1, seed=113),
    Case("modulated", "gelu_quick", 0, seed=114),
    Case("modulated", "time_not_scaled", seed=115),
    Case("modulated", "waves_swapped", seed=116),
    Case("modulated", "weight_changed", seed=117, size=(("width", 48), ("layers", 4))),
    Case("graph", "edges_reversed", 1, seed=121),
    Case("graph", "slope_default", 0, seed=122),
    Case("graph", "total_shifted", 2, seed=123),
    Case("graph", "elu_steeper", 1, seed=124),
    Case("graph", "other_labels", seed=125),
    Case("speech", "whole_residual", 1, seed=131),
    Case("speech", "places_mirrored", 0, seed=132),
    Case("speech", "halves_swapped", 1, seed=133),
    Case("speech", "activation_missing", 0, seed=134),
    Case("speech", "clipped_gradient", direction="backward", seed=135),
    Case("speech", "loss_summed", seed=136),
    Case("towers", "pooled_by_mean", 1, seed=141),
    Case("towers", "not_normalised", seed=142),
    Case("towers", "sharpness_not_exp", seed=143),
    Case("towers", "loss_not_averaged", seed=144),
]
_STRANGERS = ("latent", "modulated", "graph", "speech", "towers")


def fourth() -> list[Case]:
    """New architectures again, some with other kernels or recomputation on one side."""
    other = [
        replace(case, kind=kind, seed=case.seed + 50)
        for kind in (KERNELS, REFERENCE_KERNELS, RECOMPUTED, REFERENCE_RECOMPUTED)
        for case in [*FOURTH, *(Case(name, None, seed=110) for name in ("latent", "modulated"))]
        if case.architecture == "latent"
        or (case.architecture == "modulated" and kind in (KERNELS, REFERENCE_KERNELS))
    ]
    return of_all_kinds(FOURTH, _STRANGERS, seed=100) + other


_SOME = [
    *(SECOND[number] for number in (2, 9, 18)),
    *(THIRD[number] for number in (2, 10, 15, 18, 21)),
    Case("llama", "attention_scale", 1, seed=91),
    Case("gpt2", "bias_missing", 0, seed=92),
    Case("resnet", "slope_leaks", 1, seed=93),
    Case("t5", "mask_weak", 1, seed=94),
]


def other_ways() -> list[Case]:
    """Some of them in mixed precision, of modules alone, as checksums and as tensors."""
    controls = [Case(name, None, seed=95) for name in ("scan", "tied", "resnet")]
    cases = _SOME + controls
    ways: list[dict[str, str]] = [
        {"kind": AUTOCAST},
        {"kind": FP16},
        *({"level": "L0", "kind": kind} for kind in (SAME, NOISE, HALF)),
        {"summary": "md5"},
        *({"task": "tensor", "kind": kind} for kind in (SAME, NOISE, HALF)),
        {"task": "structure"},
    ]
    return [replace(case, **way) for way in ways for case in cases]  # type: ignore[arg-type]


def held_out() -> list[Case]:
    """The part that was not looked at while rules were made: models, sizes and seeds of its own."""
    controls = [Case("t5", None, seed=5), Case("unet", None, seed=5)]
    controls += [Case(name, None, seed=20) for name in ("llama", "gpt2", "moe", "vit", "resnet")]
    cases = HELD_OUT + controls
    return [replace(case, kind=kind) for kind in (SAME, NOISE, HALF) for case in cases]


_UNSEEN = (
    "t5",
    "unet",
    *OF_FIFTH,
    *OF_SIXTH,
    *OF_SEVENTH,
    *OF_TENTH,
    *OF_THIRTEENTH,
    *OF_FIFTEENTH,
    *OF_SEVENTEENTH,
    *OF_EIGHTEENTH,
    *OF_NINETEENTH,
)


def developed() -> list[Case]:
    """The part that may be looked at while rules are made."""
    seen = [name for name in ARCHITECTURES if name not in _UNSEEN]
    cases = FAULTS + [Case(name, None) for name in seen]
    return [replace(case, kind=kind) for kind in (SAME, NOISE, HALF) for case in cases]
