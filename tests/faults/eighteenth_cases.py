"""An eighteenth part: adapters, growing states, dreams, exchanged words, sounds, films."""

from __future__ import annotations

from dataclasses import replace

from tests.faults.case import HALF, NOISE, RESPELLED, SAME, Case, of_all_kinds

OF_EIGHTEENTH = ("adapted", "growing", "dreamed", "exchanged", "stretched", "moved")

EIGHTEENTH = [
    Case("adapted", "kernel_epsilon", 1, seed=1800),
    Case("adapted", "mean_not_taken_off", 1, direction="backward", seed=1801),
    Case("adapted", "weight_from_raw", 0, direction="backward", seed=1802),
    Case("adapted", "adapter_sees_raw", 1, seed=1803),
    Case("adapted", "dropped_not_raised", 0, seed=1804),
    Case("adapted", "scaled_by_root", 1, seed=1805),
    Case("adapted", "values_tiled", 0, seed=1806),
    Case("adapted", "one_ahead_seen", 1, seed=1807),
    Case("adapted", "documents_mixed", 0, seed=1808),
    Case("adapted", "asks_one_late", 1, seed=1809),
    Case("adapted", "next_document_judged", seed=1810),
    Case("adapted", "mean_of_each", seed=1811),
    Case("adapted", "size_not_squared", seed=1812, size=(("width", 56), ("layers", 3))),
    Case("growing", "smoothed_from_behind", 0, seed=1820),
    Case("growing", "smooth_not_bent", 2, seed=1821),
    Case("growing", "forgets_by_exponent", 0, seed=1822),
    Case("growing", "forgets_one_early", 2, seed=1823),
    Case("growing", "keys_by_width", 0, seed=1824),
    Case("growing", "not_bounded_below", 2, seed=1825),
    Case("growing", "skip_not_learned", 0, seed=1826),
    Case("growing", "largest_of_before", 1, seed=1827),
    Case("growing", "norm_without_past", 1, seed=1828),
    Case("growing", "cap_of_head", seed=1829, size=(("width", 60), ("layers", 2))),
    Case("growing", "gradient_scaled", direction="backward", seed=1830),
    Case("dreamed", "even_ones_not_mixed", seed=1840),
    Case("dreamed", "straight_way_cut", seed=1841),
    Case("dreamed", "reset_left_out", seed=1842),
    Case("dreamed", "update_not_late", seed=1843),
    Case("dreamed", "gate_turned", seed=1844),
    Case("dreamed", "seen_not_squeezed", seed=1845),
    Case("dreamed", "state_not_reset", seed=1846),
    Case("dreamed", "action_not_reset", seed=1847),
    Case("dreamed", "sides_not_cut", direction="backward", seed=1848),
    Case("dreamed", "free_by_group", seed=1849),
    Case("dreamed", "balance_exchanged", seed=1850),
    Case("dreamed", "second_place_same", seed=1851, size=(("width", 48),)),
    Case("exchanged", "padding_turned", 1, seed=1860),
    Case("exchanged", "heads_not_turned_back", 0, seed=1861),
    Case("exchanged", "left_out_not_raised", 1, seed=1862),
    Case("exchanged", "norm_before_sum", 0, seed=1863),
    Case("exchanged", "bend_by_tanh", 1, seed=1864),
    Case("exchanged", "places_from_two", seed=1865),
    Case("exchanged", "one_kind_only", seed=1866),
    Case("exchanged", "shared_is_cut", direction="backward", seed=1867),
    Case("exchanged", "all_words_guessed", seed=1868),
    Case("exchanged", "guessed_right_counts", seed=1869),
    Case("exchanged", "padding_told", seed=1870),
    Case("exchanged", "telling_light", seed=1871, size=(("width", 48), ("layers", 3))),
    Case("stretched", "padding_asked", 1, seed=1880),
    Case("stretched", "padding_not_zeroed", 0, seed=1881),
    Case("stretched", "grown_from_before", 1, seed=1882),
    Case("stretched", "feed_without_past", 0, seed=1883),
    Case("stretched", "words_not_raised", seed=1884),
    Case("stretched", "guess_not_cut", direction="backward", seed=1885),
    Case("stretched", "heights_in_logs", seed=1886),
    Case("stretched", "ends_included", seed=1887),
    Case("stretched", "frames_from_one", seed=1888),
    Case("stretched", "after_alone", seed=1889),
    Case("stretched", "padding_heard_too", seed=1890),
    Case("stretched", "log_without_one", seed=1891),
    Case("moved", "keys_not_normal", 1, seed=1900),
    Case("moved", "branch_not_raised", 0, seed=1901),
    Case("moved", "time_is_space", 1, seed=1902),
    Case("moved", "first_of_last_time", 0, seed=1903),
    Case("moved", "times_backwards", seed=1904),
    Case("moved", "places_in_turns", seed=1905),
    Case("moved", "times_not_told", seed=1906),
    Case("moved", "mixed_the_other_way", seed=1907),
    Case("moved", "nothing_smoothed", seed=1908, size=(("width", 42), ("layers", 3))),
]
# What is done with the gradients once they are there; modules alone do not show it.
UPDATES = [
    Case("adapted", "clipped_higher", seed=1815),
    Case("adapted", "clipped_each_value", seed=1816),
    Case("adapted", "decay_in_gradient", seed=1817),
    Case("adapted", "first_beta", seed=1818),
    Case("adapted", "turn_too_late", seed=1819),
    Case("adapted", "step_epsilon", seed=1820),
    Case("moved", "signs_betas_exchanged", seed=1910),
    Case("moved", "decay_not_by_rate", seed=1911),
    Case("moved", "moved_without_sign", seed=1912),
]
EQUAL = [
    Case("adapted", "equal_gate", seed=1920),
    Case("adapted", "equal_places", seed=1926),
    Case("growing", "equal_output", seed=1921),
    Case("dreamed", "equal_step", seed=1922),
    Case("exchanged", "equal_told", seed=1923),
    Case("stretched", "equal_stretching", seed=1924),
    Case("moved", "equal_mixing", seed=1925),
]


def eighteenth() -> list[Case]:
    """Faults, runs without any, and the same written in another formula, in three kinds."""
    equal = [replace(case, kind=kind) for kind in (SAME, NOISE, HALF) for case in EQUAL]
    return [*of_all_kinds(EIGHTEENTH + UPDATES, OF_EIGHTEENTH, seed=1930), *equal]


def eighteenth_otherwise() -> list[Case]:
    """Modules alone in three kinds, and every fourth with other names, checksums and tensors."""
    controls = [Case(name, None, seed=1940) for name in OF_EIGHTEENTH]
    ways: list[tuple[dict[str, str], list[Case]]] = [
        *(({"level": "L0", "kind": kind}, EIGHTEENTH) for kind in (SAME, NOISE, HALF)),
        ({"kind": RESPELLED}, EIGHTEENTH[::4]),
        ({"summary": "md5"}, EIGHTEENTH[1::4]),
        ({"task": "tensor", "kind": HALF}, EIGHTEENTH[2::4]),
    ]
    return [
        replace(case, **way)  # type: ignore[arg-type]
        for way, faults in ways
        for case in [*faults, *controls]
    ]
