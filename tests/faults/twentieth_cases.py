"""A twentieth part: chosen blocks, room for few, groups of answers, pictures, long filters."""

from __future__ import annotations

from dataclasses import replace

from tests.faults.case import HALF, NOISE, RESPELLED, SAME, Case, of_all_kinds

OF_TWENTIETH = ("selected", "dispatched", "rewarded", "shown", "long")

TWENTIETH = [
    Case("selected", "turned_at_end", 0, seed=2200),
    Case("selected", "key_places_left", 1, seed=2201),
    Case("selected", "block_by_columns", 1, seed=2202),
    Case("selected", "block_seen_early", 0, seed=2203),
    Case("selected", "nothing_is_mean", 1, seed=2204),
    Case("selected", "chosen_by_first", 0, seed=2205),
    Case("selected", "own_block_left", 1, seed=2206),
    Case("selected", "one_block_fewer", 0, seed=2207),
    Case("selected", "chosen_not_causal", 1, seed=2208),
    Case("selected", "window_short", seed=2209),
    Case("selected", "gates_by_kind", 0, seed=2210),
    Case("selected", "groups_averaged", 1, direction="backward", seed=2211),
    Case("selected", "up_not_bounded", 1, seed=2212),
    Case("selected", "gate_bounded_below", 0, seed=2213, size=(("width", 32), ("layers", 3))),
    Case("selected", "slope_of_one", 0, seed=2214),
    Case("dispatched", "weights_biased", 0, seed=2220),
    Case("dispatched", "weights_not_to_one", 1, seed=2221),
    Case("dispatched", "evenness_by_word", 0, seed=2222),
    Case("dispatched", "words_by_rest", 1, seed=2223),
    Case("dispatched", "room_one_less", 0, seed=2224),
    Case("dispatched", "weights_not_sorted", 1, seed=2225),
    Case("dispatched", "full_is_full", 0, seed=2226),
    Case("dispatched", "down_of_next", 0, seed=2227, size=(("width", 32), ("experts", 8))),
    Case("dispatched", "common_not_gated", 1, seed=2228),
    Case("dispatched", "trunk_cut_off", direction="backward", seed=2229),
    Case("dispatched", "next_is_this", seed=2230),
    Case("dispatched", "norm_of_trunk", seed=2231),
    Case("dispatched", "joined_other_way", seed=2232),
    Case("dispatched", "after_is_next", seed=2233),
    Case("rewarded", "total_not_rescaled", seed=2240),
    Case("rewarded", "first_of_piece_left", seed=2241),
    Case("rewarded", "last_aims_left", direction="backward", seed=2242),
    Case("rewarded", "heat_not_back", direction="backward", seed=2243),
    Case("rewarded", "sine_turned_round", 1, seed=2244),
    Case("rewarded", "padding_is_seen", seed=2245),
    Case("rewarded", "groups_by_stride", seed=2246),
    Case("rewarded", "spread_by_count", seed=2247),
    Case("rewarded", "answer_one_late", seed=2248),
    Case("rewarded", "ratio_of_answer", seed=2249),
    Case("rewarded", "bound_is_even", seed=2250, size=(("width", 48), ("layers", 3))),
    Case("rewarded", "better_of_both", seed=2251),
    Case("rewarded", "apart_other_way", seed=2252),
    Case("rewarded", "mean_of_means", seed=2253),
    Case("shown", "rows_for_columns", 0, seed=2260),
    Case("shown", "scale_by_width", 1, seed=2261),
    Case("shown", "bent_quickly", 1, seed=2262),
    Case("shown", "patches_not_frozen", direction="backward", seed=2263),
    Case("shown", "joined_by_columns", seed=2264),
    Case("shown", "joined_in_rows", seed=2265),
    Case("shown", "parts_in_turns", seed=2266),
    Case("shown", "heads_of_other_keys", 1, seed=2267),
    Case("shown", "time_goes_on", seed=2268, size=(("width", 40), ("looking", 32))),
    Case("shown", "text_counts_patches", seed=2269),
    Case("shown", "picture_scaled_too", seed=2270),
    Case("shown", "picture_in_order", seed=2271),
    Case("shown", "deep_to_next", seed=2272),
    Case("shown", "picture_is_judged", seed=2273),
    Case("long", "not_saturated", 1, seed=2280),
    Case("long", "power_upwards", 0, seed=2281),
    Case("long", "blocks_by_rows", 1, seed=2282),
    Case("long", "weight_not_rounded", 0, seed=2283),
    Case("long", "gradient_of_raw", 1, direction="backward", seed=2284),
    Case("long", "clipped_gives_nothing", 0, direction="backward", seed=2285),
    Case("long", "time_ends_early", 0, seed=2286),
    Case("long", "fades_to_nothing", 0, seed=2287),
    Case("long", "wraps_round", 1, seed=2288),
    Case("long", "looks_ahead", 0, seed=2289),
    Case("long", "short_sees_next", 1, seed=2290, size=(("width", 40), ("layers", 3))),
    Case("long", "scale_of_now", seed=2291),
    Case("long", "scale_of_last", seed=2292),
    Case("long", "past_not_kept", seed=2293),
]
# What is done with the gradients once they are there; modules alone do not show it.
STEPS = [
    Case("dispatched", "bounded_each", seed=2300),
    Case("dispatched", "decay_in_gradient", seed=2301),
    Case("dispatched", "moment_of_before", seed=2302),
    Case("dispatched", "epsilon_in_root", seed=2303),
    Case("dispatched", "bias_other_way", seed=2304),
]
# Kept apart until the rules that the others brought stood.
APART = [
    Case("selected", "values_as_keys", 0, seed=2310),
    Case("selected", "gates_shared_out", 1, seed=2311),
    Case("selected", "short_cut_off", 0, direction="backward", seed=2312),
    Case("selected", "one_not_joined", 1, seed=2313),
    Case("selected", "size_not_squared", seed=2314),
    Case("dispatched", "scores_shared_out", 1, seed=2315),
    Case("dispatched", "gate_and_up_exchanged", 1, seed=2316),
    Case("dispatched", "ahead_counts_less", seed=2317),
    Case("rewarded", "one_group", seed=2318),
    Case("rewarded", "not_by_spread", seed=2319),
    Case("rewarded", "reference_is_before", seed=2320),
    Case("rewarded", "apart_not_bent", seed=2321),
    Case("rewarded", "strays_for_less", seed=2322),
    Case("shown", "branch_not_scaled", 0, seed=2323),
    Case("shown", "not_by_spread_of_colours", seed=2324),
    Case("shown", "projected_unbent", seed=2325),
    Case("shown", "gate_up_exchanged", 0, seed=2326),
    Case("shown", "picture_by_other", seed=2327),
    Case("shown", "deep_cut_off", direction="backward", seed=2328),
    Case("long", "signs_left", 1, seed=2329),
    Case("long", "waves_not_bent", 1, seed=2330),
    Case("long", "gates_exchanged", 0, seed=2331),
    Case("long", "skip_left", 1, seed=2332),
    Case("long", "not_smoothed_out", seed=2333),
]
EQUAL = [
    Case("selected", "equal_choice", seed=2340),
    Case("selected", "equal_window", 1, seed=2341),
    Case("selected", "equal_bend", seed=2342),
    Case("dispatched", "equal_return", 1, seed=2343),
    Case("dispatched", "equal_join", seed=2344),
    Case("dispatched", "equal_named", seed=2345),
    Case("rewarded", "equal_pieces", seed=2346),
    Case("rewarded", "equal_bounds", seed=2347),
    Case("rewarded", "equal_strayed", seed=2348),
    Case("shown", "equal_looking", 1, seed=2349),
    Case("shown", "equal_joined", seed=2350),
    Case("shown", "equal_put", seed=2351),
    Case("long", "equal_spread", seed=2352),
    Case("long", "equal_long", 1, seed=2353),
]


def twentieth() -> list[Case]:
    """Faults, runs without any, and the same written in another formula, in three kinds."""
    equal = [replace(case, kind=kind) for kind in (SAME, NOISE, HALF) for case in EQUAL]
    return [*of_all_kinds(TWENTIETH + STEPS, OF_TWENTIETH, seed=2360), *equal]


def twentieth_apart() -> list[Case]:
    """Faults in the same models that nobody looked at before."""
    return [replace(case, kind=kind) for kind in (SAME, NOISE, HALF) for case in APART]


def twentieth_otherwise() -> list[Case]:
    """Modules alone in three kinds, and every fourth with other names, checksums and tensors."""
    controls = [Case(name, None, seed=2370) for name in OF_TWENTIETH]
    ways: list[tuple[dict[str, str], list[Case]]] = [
        *(({"level": "L0", "kind": kind}, TWENTIETH) for kind in (SAME, NOISE, HALF)),
        ({"kind": RESPELLED}, TWENTIETH[::4]),
        ({"summary": "md5"}, TWENTIETH[1::4]),
        ({"task": "tensor", "kind": HALF}, TWENTIETH[2::4]),
    ]
    return [
        replace(case, **way)  # type: ignore[arg-type]
        for way, faults in ways
        for case in [*faults, *controls]
    ]
