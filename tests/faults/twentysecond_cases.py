"""A twenty-second part: blocks of noised words, frames that fold, streams, splats, dictionaries."""

from __future__ import annotations

from dataclasses import replace

from tests.faults.case import HALF, NOISE, SAME, Case

OF_TWENTYSECOND = ("unmasked", "folded", "braided")

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
    Case("folded", "by_two_terms", 0, seed=2638),
    Case("folded", "ends_are_seen", 1, seed=2639),
    Case("folded", "pairs_by_the_seen", 0, seed=2640),
    Case("folded", "not_moved_back", 1, seed=2641),
    Case("folded", "turned_on", 1, seed=2642),
    Case("folded", "lengths_have_a_floor", 0, seed=2643),
    Case("folded", "quaternion_not_unit", 0, seed=2644),
    Case("folded", "moved_outside", 1, seed=2645),
    Case("folded", "turned_from_left", 1, seed=2646),
    Case("folded", "apart_mirrored", seed=2647),
    Case("folded", "far_ones_alike_sooner", seed=2648),
    Case("folded", "seen_from_made_frames", seed=2649),
    Case("folded", "cut_sooner", seed=2650),
    Case("folded", "not_by_ten", seed=2651),
    Case("folded", "ends_are_judged", seed=2652),
    Case("folded", "turning_not_cut", direction="backward", seed=2653),
    Case("folded", "last_fold_only", seed=2654),
    Case("folded", "pairs_not_mirrored", seed=2655),
    Case("folded", "edges_not_squared", seed=2656),
    Case("folded", "angles_exchanged", seed=2657),
    Case("folded", "other_turn_not_seen", seed=2658),
    Case("folded", "length_not_kept", seed=2659),
    Case("braided", "bend_not_led_back", direction="backward", seed=2660),
    Case("braided", "by_words_of_piece", direction="backward", seed=2661),
    Case("braided", "last_piece_only", direction="backward", seed=2662),
    Case("braided", "not_told_what_follows", direction="backward", seed=2663),
    Case("braided", "scores_not_raised", seed=2664),
    Case("braided", "columns_first", seed=2665),
    Case("braided", "streams_normed_alone", 1, seed=2666),
    Case("braided", "strengths_exchanged", 0, seed=2667),
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
    Case("braided", "smells_round", seed=2683),
    Case("braided", "last_stream_said", seed=2684),
    Case("braided", "cap_halved", seed=2685),
    Case("braided", "size_not_squared", seed=2686),
    Case("braided", "size_heavier", seed=2687),
]
# What is done with the gradients once they are there; modules alone do not show it.
STEPS = [
    Case("braided", "root_of_two", seed=2690),
    Case("braided", "right_side_left", seed=2691),
    Case("braided", "length_not_grafted", seed=2692),
    Case("braided", "nothing_shrinks", seed=2693),
    Case("braided", "floor_not_by_most", seed=2694),
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
]


def twentysecond() -> list[Case]:
    """Faults, runs without any, and other formulas: all, every other with noise, all in halves."""
    controls = [Case(name, None, seed=2790 + more) for name in OF_TWENTYSECOND for more in (0, 1)]
    faults = TWENTYSECOND + STEPS
    ways = [(SAME, faults), (NOISE, faults[::2]), (HALF, faults)]
    return [
        replace(case, kind=kind) for kind, chosen in ways for case in [*chosen, *controls, *EQUAL]
    ]


def twentysecond_otherwise() -> list[Case]:
    """Modules alone for every fifth of them, and for runs without a fault, in two kinds."""
    controls = [Case(name, None, seed=2795) for name in OF_TWENTYSECOND]
    return [
        replace(case, kind=kind, level="L0")
        for kind in (SAME, HALF)
        for case in [*TWENTYSECOND[::5], *controls]
    ]
