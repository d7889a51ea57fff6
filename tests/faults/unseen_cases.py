"""Faults that were planted once the rules stood, set after set, in models nobody had seen."""

from __future__ import annotations

from tests.faults.case import Case, of_all_kinds

OF_FIFTH = ("mixer", "listener", "variational", "objects")
OF_SIXTH = ("written", "denoiser", "mixed", "coded")
OF_TENTH = (
    *("retained", "fourier", "rendered", "summed"),
    *("styled", "points", "series", "preferred", "policy", "labelled"),
)
OF_TWELFTH = ("states", "retriever", "segmenter", "answering")
OF_THIRTEENTH = ("flow", "kept", "leftout", "pairs", "reversed", "distilled", "capsules")
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


TENTH = [
    Case("retained", "decay_base", 1, seed=701),
    Case("retained", "one_ahead", 0, seed=702),
    Case("retained", "summed_over_rows", 2, seed=703),
    Case("retained", "keys_scaled", 1, seed=704),
    Case("retained", "total_kept", 1, seed=705, direction="backward"),
    Case("retained", "floor_lower", 0, seed=706),
    Case("retained", "heads_mixed", 2, seed=707),
    Case("retained", "gate_squashed", 1, seed=708),
    Case("fourier", "filter_conjugated", 0, seed=709),
    Case("fourier", "not_ortho", 1, seed=710),
    Case("fourier", "tokens_left_out", 0, seed=711),
    Case("fourier", "imaginary", 1, seed=712),
    Case("fourier", "normed_first", 0, seed=713),
    Case("fourier", "places_rolled", seed=714),
    Case("fourier", "smoothed", seed=715),
    Case("rendered", "pi_forgotten", seed=716),
    Case("rendered", "waves_exchanged", seed=717),
    Case("rendered", "density_kinked", seed=718),
    Case("rendered", "gap_doubled", seed=719),
    Case("rendered", "light_not_shifted", seed=720),
    Case("rendered", "colour_not_squashed", seed=721),
    Case("rendered", "background_missing", seed=722),
    Case("rendered", "loss_summed", seed=723),
    Case("summed", "base_trained", 1, seed=724),
    Case("summed", "adapter_cut", 1, seed=725, direction="backward"),
    Case("summed", "adapter_scale", 0, seed=726),
    Case("summed", "halves_turned", 2, seed=727),
    Case("summed", "feature_lower", 1, seed=728),
    Case("summed", "summed_over_heads", 0, seed=729),
    Case("summed", "epsilon_added", 1, seed=730),
    Case("summed", "not_squared", 2, seed=731),
    Case("summed", "places_restart", seed=732),
    Case("summed", "gradient_scaled", seed=733, direction="backward"),
    Case("summed", "weight_changed", seed=734),
]
ELEVENTH = [
    Case("styled", "style_not_raised", 1, seed=735),
    Case("styled", "scaled_by_fan", 0, seed=736),
    Case("styled", "not_demodulated", 2, seed=737),
    Case("styled", "demodulated_by_input", 1, seed=738),
    Case("styled", "gain_is_two", 1, seed=739),
    Case("styled", "pixel_axis", seed=740),
    Case("styled", "blur_reflected", seed=741),
    Case("points", "one_neighbour_more", seed=742),
    Case("points", "farthest", seed=743),
    Case("points", "not_relative", seed=744),
    Case("points", "identity_missing", seed=745),
    Case("points", "turned_back", seed=746),
    Case("points", "slope_shallow", seed=747),
    Case("points", "neighbours_averaged", seed=748),
    Case("points", "regulariser_heavier", seed=749),
    Case("series", "spread_unbiased", seed=750),
    Case("series", "shift_first", seed=751),
    Case("series", "ends_of_zeros", seed=752),
    Case("series", "trend_added", seed=753),
    Case("series", "trend_dropped", seed=754),
    Case("series", "level_not_returned", seed=755),
    Case("series", "wrong_end", seed=756),
    Case("series", "beta_halved", seed=757),
    Case("preferred", "turned_whole", seed=758),
    Case("preferred", "one_step_ahead", seed=759),
    Case("preferred", "one_after_the_other", seed=760),
    Case("preferred", "labels_not_shifted", seed=761),
    Case("preferred", "question_counted", seed=762),
    Case("preferred", "averaged", seed=763),
    Case("preferred", "exchanged", seed=765),
    Case("preferred", "warmer", seed=766),
    Case("preferred", "label_noise", seed=767),
    Case("policy", "remembers_ones", seed=768),
    Case("policy", "never_reset", seed=769),
    Case("policy", "lambda_one", seed=770),
    Case("policy", "not_normal", seed=771),
    Case("policy", "clip_wider", seed=772),
    Case("policy", "the_larger", seed=773),
    Case("policy", "critic_heavier", seed=774),
    Case("policy", "entropy_punished", seed=775),
    Case("labelled", "padding_seen", 1, seed=776),
    Case("labelled", "twice_rectified", 0, seed=777),
    Case("labelled", "letters_averaged", seed=778),
    Case("labelled", "highway_exchanged", seed=779),
    Case("labelled", "padded_in_front", seed=780),
    Case("labelled", "other_axis", seed=781),
    Case("labelled", "summed_over_next", seed=782),
    Case("labelled", "stop_missing", seed=783),
    Case("labelled", "steps_exchanged", seed=784),
    Case("labelled", "loss_added_up", seed=785),
]


def tenth() -> list[Case]:
    """Retention, frequencies, rendered rays, running sums: may be looked at for the rules."""
    return of_all_kinds(TENTH, OF_TENTH[:4], seed=700)


def eleventh() -> list[Case]:
    """Styles, points, series, preferences, policies, chains of labels: kept for judging them."""
    return of_all_kinds(ELEVENTH, OF_TENTH[4:], seed=750)


TWELFTH = [
    Case("states", "linear_too_early", 1, seed=801),
    Case("states", "euler_step", 0, seed=802),
    Case("states", "counted_from_one", 2, seed=803),
    Case("states", "half_of_pairs", 1, seed=804),
    Case("states", "wraps_around", 0, seed=805),
    Case("states", "skip_of_first", 2, seed=806),
    Case("states", "gate_is_value", 1, seed=807),
    Case("states", "clamped_branch", 0, seed=808),
    Case("states", "gradient_by_count", seed=809, direction="backward"),
    Case("states", "layer_twice", 1, seed=810),
    Case("states", "classes_not_weighed", seed=811),
    Case("retriever", "padding_in_mean", seed=812),
    Case("retriever", "unit_over_batch", seed=813),
    Case("retriever", "kept_not_unit", seed=814),
    Case("retriever", "answers_detached", seed=815, direction="backward"),
    Case("retriever", "own_masked", seed=816),
    Case("retriever", "scale_bounded", seed=817),
    Case("retriever", "neighbour_is_truth", seed=818),
    Case("retriever", "one_way_only", seed=819),
    Case("retriever", "margin_wider", seed=820),
    Case("segmenter", "weights_not_centred", 2, seed=821),
    Case("segmenter", "spread_of_all", seed=822),
    Case("segmenter", "second_as_first", 3, seed=823),
    Case("segmenter", "gate_is_hard", 1, seed=824),
    Case("segmenter", "pixels_in_rows", seed=825),
    Case("segmenter", "kernel_turned", seed=826),
    Case("segmenter", "skip_shifted", seed=827),
    Case("segmenter", "skip_overwritten", seed=828),
    Case("segmenter", "overlap_squared", seed=829),
    Case("segmenter", "smoothed_more", seed=830),
    Case("segmenter", "aside_misplaced", seed=831),
    Case("segmenter", "aside_heavier", seed=832),
    Case("answering", "heads_tiled", seed=833),
    Case("answering", "nothing_left_out", seed=834),
    Case("answering", "bias_in_weights", 1, seed=835),
    Case("answering", "routed_factor", 0, seed=836),
    Case("answering", "second_expert_first", 1, seed=837),
    Case("answering", "last_expert_wins", 0, seed=838),
    Case("answering", "shared_ungated", 1, seed=839),
    Case("answering", "balance_detached", 0, seed=840, direction="backward"),
    Case("answering", "asks_itself", 1, seed=841),
    Case("answering", "norm_after_sum", seed=842),
    Case("answering", "peak_heavier", seed=843),
]


def twelfth() -> list[Case]:
    """New architectures and kinds of faults, scored before any rule was made for them."""
    return of_all_kinds(TWELFTH, OF_TWELFTH, seed=800)


THIRTEENTH = [
    Case("flow", "gain_not_exp", 1, seed=901),
    Case("flow", "volume_of_one_pixel", 0, seed=902),
    Case("flow", "mixing_transposed", 2, seed=903),
    Case("flow", "halves_exchanged", 1, seed=904),
    Case("flow", "scale_offset", 0, seed=905),
    Case("flow", "scaled_first", 2, seed=906),
    Case("flow", "last_volume_lost", seed=907),
    Case("flow", "volume_subtracted", seed=908),
    Case("flow", "per_pixel", seed=909),
    Case("kept", "rounded_down", seed=910),
    Case("kept", "cut_passes", seed=911, direction="backward"),
    Case("kept", "other_half_turns", 1, seed=912),
    Case("kept", "step_of_all", 0, seed=913),
    Case("kept", "more_levels", 1, seed=914),
    Case("kept", "places_restart", 0, seed=915),
    Case("kept", "kept_unturned", 1, seed=916),
    Case("kept", "kept_behind", 0, seed=917),
    Case("kept", "mask_of_kept", 1, seed=918),
    Case("kept", "bias_forgotten", 0, seed=919),
    Case("kept", "kept_is_cut", seed=920, direction="backward"),
    Case("kept", "head_one_off", seed=921),
    Case("leftout", "values_raw", 0, seed=922),
    Case("leftout", "skip_of_normal", 1, seed=923),
    Case("leftout", "pixels_by_channel", seed=924),
    Case("leftout", "places_of_first", seed=925),
    Case("leftout", "painted_on_zeros", seed=926),
    Case("leftout", "not_put_back", seed=927),
    Case("leftout", "spread_biased", seed=928),
    Case("leftout", "spread_epsilon", seed=929),
    Case("leftout", "target_raw", seed=930),
    Case("leftout", "seen_judged", seed=931),
    Case("leftout", "named_heavier", seed=932),
    Case("pairs", "edges_turned", 1, seed=933),
    Case("pairs", "gate_of_output", 0, seed=934),
    Case("pairs", "bias_turned", 1, seed=935),
    Case("pairs", "bias_not_added", 0, seed=936),
    Case("pairs", "gate_twice", 1, seed=937),
    Case("pairs", "outer_squared", 0, seed=938),
    Case("pairs", "apart_cut_early", seed=939),
    Case("pairs", "rounds_joined", seed=940, direction="backward"),
    Case("pairs", "told_raw", seed=941),
    Case("pairs", "one_sided", seed=942),
    Case("pairs", "own_pairs_counted", seed=943),
    Case("reversed", "undone_with_plus", seed=944, direction="backward"),
    Case("reversed", "first_stream_lost", seed=945, direction="backward"),
    Case("reversed", "keys_not_unit", 1, seed=946),
    Case("reversed", "not_cooled", 0, seed=947),
    Case("reversed", "looks_at_itself", 1, seed=948),
    Case("reversed", "softplus_sharper", 0, seed=949),
    Case("reversed", "axes_exchanged", seed=950),
    Case("reversed", "one_stream", seed=951),
    Case("distilled", "path_not_raised", seed=952),
    Case("distilled", "pupil_not_unit", seed=953),
    Case("distilled", "last_by_column", seed=954),
    Case("distilled", "teacher_slower", seed=955),
    Case("distilled", "teacher_warmer", seed=956),
    Case("distilled", "not_centred", seed=957),
    Case("distilled", "aim_not_cut", seed=958),
    Case("distilled", "same_view", seed=959),
    Case("distilled", "not_smoothed", seed=960),
    Case("capsules", "squashed_by_length", seed=961),
    Case("capsules", "parts_by_place", seed=962),
    Case("capsules", "one_round_less", seed=963),
    Case("capsules", "shared_by_parts", seed=964),
    Case("capsules", "logits_not_kept", seed=965),
    Case("capsules", "margin_low", seed=966),
    Case("capsules", "absent_heavier", seed=967),
    Case("capsules", "painted_from_all", seed=968),
    Case("capsules", "painted_summed", seed=969),
]


def thirteenth() -> list[Case]:
    """Flows, kept keys, patches left out, pairs, reversible layers, a teacher, capsules."""
    return of_all_kinds(THIRTEENTH, OF_THIRTEENTH, seed=900)
