"""Faults that were planted once the rules stood, set after set, in models nobody had seen."""

from __future__ import annotations

from tests.faults.case import Case, of_all_kinds

OF_FIFTH = ("mixer", "listener", "variational", "objects")
OF_SIXTH = ("written", "denoiser", "mixed", "coded")
OF_SEVENTH = ("transducer", "translator", "opponents", "topped")

FIFTH = [
    Case("mixer", "shifted_twice", 1, seed=201),
    Case("mixer", "decay_not_exp", 0, seed=202),
    Case("mixer", "bonus_missing", 1, seed=203),
    Case("mixer", "rectifier_cubed", 0, seed=204),
    Case("mixer", "weight_changed", seed=205, size=(("width", 48), ("layers", 3))),
    Case("mixer", "gradient_scaled", direction="backward", seed=206),
    Case("listener", "future_heard", 1, seed=211),
    Case("listener", "cross_not_normal", 0, seed=212),
    Case("listener", "waves_shorter", seed=213),
    Case("listener", "second_gelu_missing", seed=214),
    Case("listener", "heard_not_normal", seed=215),
    Case("variational", "clamped_feature", seed=221),
    Case("variational", "variance_for_spread", seed=222),
    Case("variational", "spread_dropped", seed=223),
    Case("variational", "latent_factor", seed=224),
    Case("variational", "pooled_by_largest", seed=225, size=(("width", 24),)),
    Case("variational", "loss_summed", seed=226),
    Case("objects", "places_in_values", seed=231),
    Case("objects", "asked_without_place", seed=232),
    Case("objects", "feed_doubled", seed=233),
    Case("objects", "first_query_only", seed=234),
    Case("objects", "loss_not_averaged", seed=235),
]


def fifth() -> list[Case]:
    """New architectures once more, written after all rules."""
    return of_all_kinds(FIFTH, OF_FIFTH, seed=200)


SIXTH = [
    Case("written", "gates_in_another_order", 1, seed=301),
    Case("written", "cell_told_raw", 0, seed=302),
    Case("written", "past_detached", 1, seed=303),
    Case("denoiser", "groups_halved", 1, seed=311),
    Case("denoiser", "dilation_forgotten", 2, seed=312),
    Case("denoiser", "shortcut_dropped", 0, seed=313),
    Case("mixed", "not_turned_back", 1, seed=321),
    Case("mixed", "too_warm", 2, seed=322),
    Case("mixed", "clamped_in_place", 0, seed=323),
    Case("coded", "passed_in_part", direction="backward", seed=331),
    Case("coded", "distance_not_squared", seed=332),
    Case("coded", "branch_detached", seed=333),
]


def sixth() -> list[Case]:
    """New architectures, written after the rule on slopes that jump."""
    return of_all_kinds(SIXTH, OF_SIXTH, seed=300)


SEVENTH = [
    Case("transducer", "told_too_late", seed=401),
    Case("transducer", "joined_by_product", seed=402),
    Case("transducer", "wrong_axis", seed=403),
    Case("translator", "operands_swapped", 1, seed=411),
    Case("translator", "padding_seen", 0, seed=412),
    Case("translator", "normal_over_queries", 1, seed=413),
    Case("translator", "half_in_between", 0, seed=414),
    Case("translator", "dropout_on", 1, seed=415),
    Case("translator", "stale_places", seed=416),
    Case("translator", "one_element_hit", seed=417),
    Case("opponents", "backward_kernel", direction="backward", seed=421),
    Case("opponents", "group_epsilon", seed=422),
    Case("opponents", "one_axis_only", seed=423),
    Case("opponents", "reflected", seed=424),
    Case("opponents", "detach_missing", seed=425),
    Case("opponents", "log_of_nothing", seed=426),
    Case("topped", "not_transposed", seed=431),
    Case("topped", "one_too_few", seed=432),
    Case("topped", "aliased", seed=433),
    Case("topped", "wide_eps", seed=434),
]


def seventh() -> list[Case]:
    """New architectures and kinds of faults, written when all rules stood."""
    return of_all_kinds(SEVENTH, OF_SEVENTH, seed=400)


EIGHTH = [
    Case("windows", "shift_forgotten", 1, seed=501),
    Case("windows", "window_scale", 2, seed=502),
    Case("windows", "bias_transposed", 0, seed=503),
    Case("windows", "mlp_not_added", 1, seed=504),
    Case("windows", "pooled_first", seed=505),
    Case("windows", "weight_changed", seed=506),
    Case("next", "padded_otherwise", 1, seed=507),
    Case("next", "gelu_guessed", 0, seed=508),
    Case("next", "response_over_channels", 2, seed=509),
    Case("next", "gamma_detached", 1, seed=510),
    Case("next", "final_norm_missing", seed=511),
    Case("kv", "key_norm_skipped", 1, seed=512),
    Case("kv", "keys_not_turned", 0, seed=513),
    Case("kv", "heads_interleaved", 2, seed=514),
    Case("kv", "looks_ahead", 1, seed=515),
    Case("kv", "gate_saved_in_half", 1, seed=516),
    Case("kv", "positions_from_one", seed=517),
    Case("kv", "logits_scaled", seed=518),
    Case("kv", "loss_summed", seed=519),
    Case("kv", "gradient_scaled", direction="backward", seed=520),
    Case("kv", "query_rows_interleaved", 1, seed=521),
    Case("kv", "gate_rows_swapped", 1, seed=522),
    Case("kv", "out_columns_swapped", 1, seed=523),
]


def eighth() -> list[Case]:
    """New architectures, and weights or indices in another order."""
    return of_all_kinds(EIGHTH, ("windows", "next", "kv"), seed=500)


NINTH = [
    Case("capped", "turned_the_other_way", seed=601),
    Case("capped", "scores_scaled_twice", 1, seed=602),
    Case("capped", "cap_halved", 0, seed=603),
    Case("capped", "cap_missing", 1, seed=604),
    Case("capped", "mask_rolled", 2, seed=605),
    Case("capped", "gate_and_up_swapped", 1, seed=606),
    Case("capped", "words_not_scaled", seed=607),
    Case("capped", "other_base", seed=608),
    Case("capped", "gradient_scaled", direction="backward", seed=609),
    Case("sloped", "slopes_halved", 1, seed=610),
    Case("sloped", "padding_seen", 0, seed=611),
    Case("sloped", "normed_before", 2, seed=612),
    Case("sloped", "gelu_guessed", 1, seed=613),
    Case("sloped", "kinds_subtracted", seed=614),
    Case("sloped", "weight_changed", seed=615),
    Case("sloped", "loss_summed", seed=616),
]


def ninth() -> list[Case]:
    """Masks of the lowest number of a type, and tensors that are put together in place."""
    return of_all_kinds(NINTH, ("capped", "sloped"), seed=600)
