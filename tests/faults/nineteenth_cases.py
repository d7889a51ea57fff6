"""A nineteenth part: kept keys and windows, hidden sounds, soft slots, neighbours, few numbers."""

from __future__ import annotations

from dataclasses import replace

from tests.faults.case import HALF, NOISE, RESPELLED, SAME, Case, of_all_kinds

OF_NINETEENTH = ("assisted", "hidden", "slotted", "linked", "rounded")

NINETEENTH = [
    Case("assisted", "one_not_added", 1, seed=2000),
    Case("assisted", "norm_in_half", 0, seed=2001),
    Case("assisted", "local_base_global", seed=2002),
    Case("assisted", "places_not_stretched", seed=2003),
    Case("assisted", "turned_in_pairs", 1, seed=2004),
    Case("assisted", "key_norm_epsilon", 0, seed=2005),
    Case("assisted", "normed_over_heads", 1, seed=2006),
    Case("assisted", "past_is_cut", 0, direction="backward", seed=2007),
    Case("assisted", "cap_too_low", 1, seed=2008),
    Case("assisted", "cap_left_out", 0, seed=2009),
    Case("assisted", "bent_exactly", 1, seed=2010),
    Case("assisted", "residual_after_norm", 1, seed=2011),
    Case("assisted", "residual_twice", 0, seed=2012),
    Case("assisted", "head_not_tied", seed=2013),
    Case("assisted", "window_one_more", seed=2014),
    Case("assisted", "words_not_scaled", seed=2015),
    Case("assisted", "places_without_past", seed=2016, size=(("width", 40), ("layers", 3))),
    Case("assisted", "unjudged_are_zero", seed=2017),
    Case("assisted", "aims_not_shifted", seed=2018),
    Case("hidden", "gradient_not_lessened", direction="backward", seed=2030),
    Case("hidden", "length_of_each_output", seed=2031),
    Case("hidden", "first_place_left", seed=2032),
    Case("hidden", "padding_turned_round", 0, seed=2033),
    Case("hidden", "dropout_left_on", 1, seed=2034),
    Case("hidden", "normed_behind", 1, seed=2035),
    Case("hidden", "groups_one", seed=2036),
    Case("hidden", "bent_before_norm", seed=2037),
    Case("hidden", "hidden_by_nothing", seed=2038),
    Case("hidden", "others_of_neighbour", seed=2039),
    Case("hidden", "alike_over_choices", seed=2040),
    Case("hidden", "heat_squared", seed=2041, size=(("width", 40), ("layers", 3))),
    Case("hidden", "hidden_summed", seed=2042),
    Case("slotted", "patches_by_columns", seed=2050),
    Case("slotted", "scale_not_root", seed=2051),
    Case("slotted", "asked_not_unit", seed=2052),
    Case("slotted", "given_over_slots", seed=2053),
    Case("slotted", "taken_over_places", seed=2054),
    Case("slotted", "experts_bias_left", seed=2055),
    Case("slotted", "down_transposed", seed=2056),
    Case("slotted", "token_last", seed=2057),
    Case("slotted", "branch_whole", seed=2058, size=(("width", 40), ("depth", 3))),
    Case("slotted", "token_in_mean", seed=2059),
    Case("slotted", "not_smoothed", seed=2060),
    Case("linked", "edges_not_told", 1, seed=2070),
    Case("linked", "leaks_less", 0, seed=2071),
    Case("linked", "shared_by_senders", 1, seed=2072),
    Case("linked", "told_to_senders", 0, seed=2073),
    Case("linked", "nobody_hears_itself", seed=2074),
    Case("linked", "skip_without_bias", seed=2075),
    Case("linked", "batch_epsilon", seed=2076),
    Case("linked", "normed_by_past", seed=2077),
    Case("linked", "joined_backwards", seed=2078),
    Case("linked", "read_by_largest", seed=2079, size=(("width", 30), ("layers", 3))),
    Case("linked", "rare_not_weighed", seed=2080),
    Case("rounded", "range_too_short", 1, seed=2090),
    Case("rounded", "outside_passes", 0, direction="backward", seed=2091),
    Case("rounded", "scale_not_lessened", 1, direction="backward", seed=2092),
    Case("rounded", "one_scale_for_all", 0, seed=2093),
    Case("rounded", "block_begins_late", 1, seed=2094),
    Case("rounded", "sums_not_rescaled", 0, seed=2095),
    Case("rounded", "rows_not_taken_off", 1, direction="backward", seed=2096),
    Case("rounded", "keys_not_scaled_back", 0, direction="backward", seed=2097),
    Case("rounded", "summed_in_half", 0, seed=2098),
    Case("rounded", "square_keeps_sign", 1, seed=2099, size=(("width", 40), ("layers", 3))),
    Case("rounded", "root_of_nothing", direction="backward", seed=2100),
    Case("rounded", "unjudged_in_mean", seed=2101),
]
# What is done with the gradients once they are there; modules alone do not show it.
ROWS = [
    Case("rounded", "square_epsilon", seed=2110),
    Case("rounded", "forgets_by_root", seed=2111),
    Case("rounded", "rows_not_shared", seed=2112),
    Case("rounded", "steps_not_bounded", seed=2113),
    Case("rounded", "rate_not_relative", seed=2114),
]
EQUAL = [
    Case("assisted", "equal_root", seed=2120),
    Case("assisted", "equal_repeat", seed=2121),
    Case("assisted", "equal_window", seed=2122),
    Case("hidden", "equal_attention", 1, seed=2123),
    Case("slotted", "equal_products", seed=2124),
    Case("slotted", "equal_mixture", seed=2125),
    Case("linked", "equal_shares", seed=2126),
    Case("rounded", "equal_levels", seed=2127),
    Case("rounded", "equal_blocks", seed=2128),
    Case("rounded", "equal_named", seed=2129),
]


def nineteenth() -> list[Case]:
    """Faults, runs without any, and the same written in another formula, in three kinds."""
    equal = [replace(case, kind=kind) for kind in (SAME, NOISE, HALF) for case in EQUAL]
    return [*of_all_kinds(NINETEENTH + ROWS, OF_NINETEENTH, seed=2140), *equal]


def nineteenth_otherwise() -> list[Case]:
    """Modules alone in three kinds, and every fourth with other names, checksums and tensors."""
    controls = [Case(name, None, seed=2150) for name in OF_NINETEENTH]
    with_modules = [case for case in NINETEENTH if case.architecture != "slotted"]
    ways: list[tuple[dict[str, str], list[Case]]] = [
        *(({"level": "L0", "kind": kind}, with_modules) for kind in (SAME, NOISE, HALF)),
        ({"kind": RESPELLED}, NINETEENTH[::4]),
        ({"summary": "md5"}, NINETEENTH[1::4]),
        ({"task": "tensor", "kind": HALF}, NINETEENTH[2::4]),
    ]
    return [
        replace(case, **way)  # type: ignore[arg-type]
        for way, faults in ways
        for case in [*faults, *controls]
        if (case.architecture, way.get("level")) != ("slotted", "L0")  # it is made of functions
    ]
