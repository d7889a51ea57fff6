"""A twenty-second part: blocks of noised words, frames that fold, streams, splats, dictionaries."""

from __future__ import annotations

from dataclasses import replace

from tests.faults.case import HALF, NOISE, SAME, Case

OF_TWENTYSECOND = ("unmasked", "folded", "braided", "splatted", "explained")

TWENTYSECOND = [
    Case("unmasked", "queries_normed_together", 1, seed=2600),
    Case("unmasked", "keys_not_turned", 0, seed=2601),
    Case("unmasked", "shared_in_turns", 1, seed=2602),
    Case("unmasked", "scaled_by_width", 0, seed=2603),
    Case("unmasked", "gates_exchanged", 1, seed=2604, size=(("width", 48), ("layers", 3))),
    Case("unmasked", "shifted_before_scaled", 0, seed=2605),
    Case("unmasked", "added_to_normed", 1, seed=2606),
    Case("unmasked", "bends_the_other", 0, seed=2607),
    Case("unmasked", "clean_seen_too_soon", seed=2608),
    Case("unmasked", "own_block_is_before", seed=2609),
    Case("unmasked", "clean_sees_all", seed=2610),
    Case("unmasked", "times_not_raised", seed=2611),
    Case("unmasked", "told_of_next_block", seed=2612),
    Case("unmasked", "times_all_alike", seed=2613),
    Case("unmasked", "least_not_hidden", seed=2614),
    Case("unmasked", "drawn_for_blocks", seed=2615),
    Case("unmasked", "hidden_other_way", seed=2616),
    Case("unmasked", "hidden_as_first_word", seed=2617),
    Case("unmasked", "places_go_on", seed=2618),
    Case("unmasked", "clean_half_judged", seed=2619),
    Case("unmasked", "hidden_may_be_said", seed=2620),
    Case("unmasked", "aims_at_next", seed=2621),
    Case("unmasked", "weighed_by_time", seed=2622),
    Case("unmasked", "not_weighed", seed=2623),
    Case("unmasked", "known_judged_too", seed=2624),
    Case("unmasked", "by_hidden_ones", seed=2625),
    Case("folded", "second_not_upright", seed=2630),
    Case("folded", "third_other_way", seed=2631),
    Case("folded", "points_not_moved", 1, seed=2632),
    Case("folded", "points_turned_back", 1, seed=2633),
    Case("folded", "apart_by_length", 0, seed=2634),
    Case("folded", "heavy_may_be_negative", 0, seed=2635),
    Case("folded", "points_not_counted", 1, seed=2636),
    Case("folded", "near_looks_less", 1, seed=2637, size=(("width", 32), ("layers", 3))),
    Case("folded", "ends_are_seen", 1, seed=2639),
    Case("folded", "pairs_by_the_seen", 0, seed=2640),
    Case("folded", "not_moved_back", 1, seed=2641),
    Case("folded", "turned_on", 1, seed=2642),
    Case("folded", "lengths_have_a_floor", 0, seed=2643),
    Case("folded", "quaternion_not_unit", 0, seed=2644),
    Case("folded", "moved_outside", 1, seed=2645),
    Case("folded", "turned_from_left", 1, seed=2646),
    Case("folded", "apart_mirrored", seed=2647),
    Case("folded", "seen_from_made_frames", seed=2649),
    Case("folded", "ends_are_judged", seed=2652),
    Case("folded", "turning_not_cut", direction="backward", seed=2653),
    Case("folded", "last_fold_only", seed=2654),
    Case("folded", "pairs_not_mirrored", seed=2655),
    Case("folded", "angles_exchanged", seed=2657),
    Case("folded", "other_turn_not_seen", seed=2658),
    Case("braided", "bend_not_led_back", direction="backward", seed=2660),
    Case("braided", "by_words_of_piece", direction="backward", seed=2661),
    Case("braided", "last_piece_only", direction="backward", seed=2662),
    Case("braided", "not_told_what_follows", direction="backward", seed=2663),
    Case("braided", "scores_not_raised", seed=2664),
    Case("braided", "columns_first", seed=2665),
    Case("braided", "streams_normed_alone", 1, seed=2666),
    Case("braided", "given_not_doubled", 1, seed=2668),
    Case("braided", "mix_without_base", 0, seed=2669),
    Case("braided", "evened_once_less", 1, seed=2670),
    Case("braided", "first_values_cut", 1, direction="backward", seed=2671),
    Case("braided", "first_share_turned", 1, seed=2672),
    Case("braided", "own_values_only", 1, seed=2673, size=(("width", 48), ("layers", 3))),
    Case("braided", "warmth_not_raised", 0, seed=2674),
    Case("braided", "slope_of_next", 0, seed=2675),
    Case("braided", "sees_not_itself", 1, seed=2676),
    Case("braided", "gate_by_raw", 0, seed=2677),
    Case("braided", "gate_left", 1, seed=2678),
    Case("braided", "mixed_backwards", 0, seed=2679),
    Case("braided", "first_stream_read", 1, seed=2680),
    Case("braided", "bend_not_squared", 0, seed=2681),
    Case("braided", "smells_of_next", seed=2682),
    Case("braided", "last_stream_said", seed=2684),
    Case("braided", "size_not_squared", seed=2686),
    Case("splatted", "turn_not_unit", seed=2704),
    Case("splatted", "one_sign_of_turn", seed=2706),
    Case("splatted", "spread_before_turn", seed=2708),
    Case("splatted", "slope_by_depth_once", seed=2709),
    Case("splatted", "slopes_not_turned", seed=2710),
    Case("splatted", "not_blurred", seed=2711),
    Case("splatted", "product_not_taken_off", seed=2712),
    Case("splatted", "way_not_unit", seed=2714),
    Case("splatted", "ways_in_order", seed=2715),
    Case("splatted", "not_raised_to_grey", seed=2716),
    Case("splatted", "turned_the_other_way", seed=2718),
    Case("splatted", "farthest_first", seed=2719),
    Case("splatted", "colours_not_in_order", seed=2720),
    Case("splatted", "corners_of_pixels", seed=2721),
    Case("splatted", "faint_ones_painted", seed=2725),
    Case("splatted", "hides_itself", seed=2727),
    Case("splatted", "nothing_behind", seed=2728),
    Case("splatted", "window_is_a_box", seed=2730),
    Case("splatted", "means_not_taken_off", seed=2731),
    Case("splatted", "constants_exchanged", seed=2732),
    Case("explained", "at_threshold_off", seed=2740),
    Case("explained", "passes_all_back", direction="backward", seed=2741),
    Case("explained", "threshold_drawn_down", direction="backward", seed=2742),
    Case("explained", "threshold_by_mean", direction="backward", seed=2743),
    Case("explained", "sees_ahead", 1, seed=2745),
    Case("explained", "terms_unit_across", seed=2749),
    Case("explained", "middle_not_put_back", seed=2750),
    Case("explained", "living_ones_help", seed=2751),
    Case("explained", "best_of_all_alike", seed=2752),
    Case("explained", "missing_not_cut", direction="backward", seed=2754),
    Case("explained", "rescue_not_by_size", seed=2755),
    Case("explained", "last_terms_instead", seed=2757),
    Case("explained", "size_of_sum", seed=2759),
    Case("explained", "said_at_wrong_size", seed=2762),
    Case("explained", "taught_other_way", seed=2763),
    Case("explained", "never_forgotten", seed=2766),
]
# What is done with the gradients once they are there; modules alone do not show it.
STEPS = [
    Case("braided", "root_of_two", seed=2690),
    Case("braided", "right_side_left", seed=2691),
    Case("braided", "length_not_grafted", seed=2692),
    Case("braided", "nothing_shrinks", seed=2693),
    Case("explained", "along_added", seed=2695),
    Case("explained", "cut_at_tenth", seed=2697),
    Case("explained", "lengths_drift", seed=2698),
]
# Kept apart until the rules stood.
APART = [
    Case("folded", "by_two_terms", 0, seed=2638),
    Case("folded", "far_ones_alike_sooner", seed=2648),
    Case("folded", "cut_sooner", seed=2650),
    Case("folded", "not_by_ten", seed=2651),
    Case("folded", "edges_not_squared", seed=2656),
    Case("folded", "length_not_kept", seed=2659),
    Case("braided", "strengths_exchanged", 0, seed=2667),
    Case("braided", "smells_round", seed=2683),
    Case("braided", "cap_halved", seed=2685),
    Case("braided", "size_heavier", seed=2687),
    Case("braided", "floor_not_by_most", seed=2694),
    Case("splatted", "gate_squashed", 1, seed=2700),
    Case("splatted", "power_not_halved", seed=2723),
    Case("splatted", "shares_exchanged", seed=2735),
    Case("splatted", "depth_not_evened", seed=2736),
    Case("explained", "near_is_farther", direction="backward", seed=2748),
    Case("explained", "nested_summed", seed=2758),
    Case("explained", "aim_not_by_itself", seed=2761),
    Case("splatted", "spread_by_softplus", seed=2800),
    Case("splatted", "sides_exchanged", seed=2801),
    Case("splatted", "spread_not_squared", seed=2802),
    Case("splatted", "dark_is_negative", seed=2803),
    Case("splatted", "cross_term_halved", seed=2804),
    Case("splatted", "never_half_dense", seed=2805),
    Case("splatted", "faint_up_to_tenth", seed=2806),
    Case("splatted", "behind_everywhere", seed=2807),
    Case("splatted", "aims_at_next_picture", seed=2808),
    Case("splatted", "off_squared", seed=2809),
    Case("splatted", "dense_as_told", seed=2810),
    Case("splatted", "rows_are_columns", seed=2811),
    Case("splatted", "goes_past_nothing", 0, seed=2812),
    Case("explained", "threshold_by_softplus", seed=2820),
    Case("explained", "slope_not_by_width", direction="backward", seed=2821),
    Case("explained", "whole_only", seed=2822),
    Case("explained", "aims_at_none", seed=2823),
    Case("explained", "away_by_elements", seed=2824),
    Case("explained", "tells_all_again", seed=2825),
    Case("explained", "middle_left_in", seed=2826),
    Case("explained", "rescue_left", seed=2827),
    Case("explained", "along_left_in", seed=2828),
]
EQUAL = [
    Case("unmasked", "equal_shared", 1, seed=2760),
    Case("unmasked", "equal_gated", 0, seed=2761),
    Case("unmasked", "equal_blocks", seed=2762),
    Case("unmasked", "equal_named", seed=2763),
    Case("folded", "equal_turning", seed=2764),
    Case("folded", "equal_placed", 1, seed=2765),
    Case("folded", "equal_apart", 0, seed=2766),
    Case("braided", "equal_evened", seed=2767),
    Case("braided", "equal_first", 1, seed=2768),
    Case("braided", "equal_gate", 0, seed=2769),
    Case("braided", "equal_smell", seed=2770),
    Case("braided", "equal_pieces", seed=2771),
    Case("splatted", "equal_spread", seed=2772),
    Case("splatted", "equal_inverse", seed=2773),
    Case("splatted", "equal_through", seed=2774),
    Case("splatted", "equal_shares", seed=2775),
    Case("explained", "equal_middle", seed=2776),
    Case("explained", "equal_spoken", seed=2777),
    Case("explained", "equal_few", seed=2778),
    Case("explained", "equal_away", seed=2779),
]


def twentysecond() -> list[Case]:
    """Faults, controls and other formulas: all, every other with noise, all in bfloat16."""
    controls = [Case(name, None, seed=2790 + more) for name in OF_TWENTYSECOND for more in (0, 1)]
    faults = TWENTYSECOND + STEPS
    ways = [(SAME, faults), (NOISE, faults[::2]), (HALF, faults)]
    return [
        replace(case, kind=kind) for kind, chosen in ways for case in [*chosen, *controls, *EQUAL]
    ]


def twentysecond_apart() -> list[Case]:
    """Faults in the same models that were kept apart until the rules stood."""
    return [replace(case, kind=kind) for kind in (SAME, NOISE, HALF) for case in APART]


def twentysecond_otherwise() -> list[Case]:
    """Modules alone for every fifth of them, and for runs without a fault, in two kinds."""
    controls = [Case(name, None, seed=2795) for name in OF_TWENTYSECOND]
    return [
        replace(case, kind=kind, level="L0")
        for kind in (SAME, HALF)
        for case in [*TWENTYSECOND[::5], *controls]
    ]
