"""A seventeenth part: kinds of models that are trained every day, put together otherwise."""

from __future__ import annotations

from dataclasses import replace

from tests.faults.case import HALF, NOISE, RESPELLED, SAME, Case, of_all_kinds

OF_SEVENTEENTH = ("sunk", "balanced", "joint", "whispered", "contrasted", "ranked")

SEVENTEENTH = [
    Case("sunk", "ramp_ends_exchanged", seed=1600),
    Case("sunk", "turns_not_enlarged", seed=1601),
    Case("sunk", "keys_in_turns", 1, seed=1602),
    Case("sunk", "window_by_one", 2, seed=1603),
    Case("sunk", "sink_left_out", 0, seed=1604),
    Case("sunk", "router_without_bias", 1, seed=1605),
    Case("sunk", "shares_of_all", 2, seed=1606),
    Case("sunk", "halves_not_in_turns", 0, seed=1607),
    Case("sunk", "gate_cut_early", 1, seed=1608),
    Case("sunk", "gate_as_silu", 2, seed=1609),
    Case("sunk", "up_not_shifted", 0, seed=1610, size=(("width", 72), ("layers", 2))),
    Case("sunk", "back_bias_outside", 1, seed=1611),
    Case("sunk", "gradient_scaled", direction="backward", seed=1612),
    Case("balanced", "scores_cut", 2, seed=1620),
    Case("balanced", "groups_by_largest", 1, seed=1621),
    Case("balanced", "weights_with_bias", 2, seed=1622),
    Case("balanced", "weights_not_shared", 1, seed=1623),
    Case("balanced", "routed_not_scaled", 2, seed=1624, size=(("width", 56), ("experts", 6))),
    Case("balanced", "bias_stands", 1, seed=1625),
    Case("balanced", "busy_made_busier", 2, seed=1626),
    Case("balanced", "balance_tenfold", 1, seed=1627),
    Case("balanced", "silu_of_other", 0, seed=1628),
    Case("balanced", "heads_epsilon", 2, seed=1629),
    Case("balanced", "keys_not_spun", 1, seed=1630),
    Case("balanced", "spun_back", 0, seed=1631),
    Case("balanced", "rows_by_more", 2, seed=1632),
    Case("balanced", "weights_not_in_order", 1, seed=1633),
    Case("balanced", "shared_twice", 2, seed=1634),
    Case("balanced", "spread_not_squared", seed=1635),
    Case("joint", "words_keys_raw", 1, seed=1640),
    Case("joint", "gates_confused", 0, seed=1641),
    Case("joint", "shifted_first", 1, seed=1642),
    Case("joint", "gelu_exactly", 0, seed=1643),
    Case("joint", "inner_too_large", 1, seed=1644),
    Case("joint", "values_joined_backwards", 0, seed=1645),
    Case("joint", "words_taken_last", 1, seed=1646),
    Case("joint", "rows_told_as_columns", seed=1647),
    Case("joint", "time_by_hundreds", seed=1648),
    Case("joint", "ends_of_way_exchanged", seed=1649),
    Case("joint", "way_back", seed=1650),
    Case("joint", "always_told", seed=1651),
    Case("joint", "words_heard_fully", direction="backward", seed=1652),
    Case("joint", "time_cut_off", seed=1653),
    Case("joint", "last_epsilon", seed=1654, size=(("width", 48), ("layers", 3))),
    Case("joint", "patches_across", seed=1655),
    Case("joint", "weighed_by_time", seed=1656),
    Case("whispered", "asks_without_bias", 1, seed=1660),
    Case("whispered", "keys_not_scaled", 0, seed=1661),
    Case("whispered", "shares_by_asker", 1, seed=1662),
    Case("whispered", "asks_unnormal", 0, seed=1663),
    Case("whispered", "ears_with_relu", 1, seed=1664),
    Case("whispered", "pitches_wider", seed=1665),
    Case("whispered", "logs_natural", seed=1666),
    Case("whispered", "quiet_cut_less", seed=1667),
    Case("whispered", "first_gelu_missing", seed=1668),
    Case("whispered", "ear_waves_shorter", seed=1669),
    Case("whispered", "heard_norm_twice", seed=1670),
    Case("whispered", "told_unnormal", seed=1671),
    Case("whispered", "said_at_late", seed=1672),
    Case("whispered", "one_word_ahead", seed=1673),
    Case("whispered", "logits_too_large", seed=1674),
    Case("whispered", "silence_judged", seed=1675),
    Case("whispered", "nothing_smoothed", seed=1676, size=(("width", 44), ("layers", 1))),
    Case("contrasted", "groups_of_channels", 1, seed=1680),
    Case("contrasted", "groups_epsilon", 0, seed=1681),
    Case("contrasted", "excited_by_rows", 1, seed=1682),
    Case("contrasted", "excited_hard", 0, seed=1683),
    Case("contrasted", "share_left_out", 1, seed=1684),
    Case("contrasted", "smoothing_flat", seed=1685),
    Case("contrasted", "edges_of_nothing", seed=1686),
    Case("contrasted", "scaled_by_width", seed=1687),
    Case("contrasted", "own_not_unit", seed=1688),
    Case("contrasted", "slow_not_cut", seed=1689),
    Case("contrasted", "slow_stands", seed=1690),
    Case("contrasted", "slow_too_slow", seed=1691),
    Case("contrasted", "alike_comes_last", seed=1692),
    Case("contrasted", "queue_colder", seed=1693),
    Case("contrasted", "queue_too_early", seed=1694),
    Case("contrasted", "queue_stands", seed=1695),
    Case("contrasted", "place_by_one", seed=1696),
    Case("contrasted", "texts_by_column", seed=1697),
    Case("contrasted", "sharpness_raw", seed=1698),
    Case("contrasted", "lean_left_out", seed=1699),
    Case("contrasted", "pairs_averaged_twice", seed=1700),
    Case("ranked", "bend_epsilon", seed=1710),
    Case("ranked", "bend_turned", seed=1711),
    Case("ranked", "difference_turned", seed=1712),
    Case("ranked", "padding_weighed", seed=1713),
    Case("ranked", "nobody_looked", seed=1714),
    Case("ranked", "squares_of_mean", seed=1715),
    Case("ranked", "crossed_not_halved", seed=1716),
    Case("ranked", "wide_by_mean", seed=1717),
    Case("ranked", "gates_of_other_task", seed=1718),
    Case("ranked", "gate_not_shared_out", seed=1719),
    Case("ranked", "gate_by_row", seed=1720),
    Case("ranked", "bought_alone", seed=1721),
    Case("ranked", "looked_cut_off", seed=1722),
    Case("ranked", "buying_not_heavier", seed=1723),
    Case("ranked", "buying_summed", seed=1724),
    Case("ranked", "lengths_not_squared", seed=1725),
]
# In bfloat16 this call is right.
OF_TYPES = [Case("sunk", "shares_in_half", 1, seed=1730)]
EQUAL = [
    Case("sunk", "equal_sinks", seed=1731),
    Case("balanced", "equal_dispatch", seed=1732),
    Case("joint", "equal_mixing", seed=1733),
    Case("whispered", "equal_scaling", seed=1734),
    Case("contrasted", "equal_signs", seed=1735),
    Case("ranked", "equal_pairs", seed=1736),
]


def seventeenth() -> list[Case]:
    """Faults, runs without any, and the same written in another formula, in three kinds."""
    of_types = [replace(case, kind=kind) for kind in (SAME, NOISE) for case in OF_TYPES]
    equal = [replace(case, kind=kind) for kind in (SAME, NOISE, HALF) for case in EQUAL]
    return [*of_all_kinds(SEVENTEENTH, OF_SEVENTEENTH, seed=1740), *of_types, *equal]


def seventeenth_otherwise() -> list[Case]:
    """Modules alone in three kinds, and every fourth with other names, checksums and tensors."""
    controls = [Case(name, None, seed=1750) for name in OF_SEVENTEENTH]
    ways: list[tuple[dict[str, str], list[Case]]] = [
        *(({"level": "L0", "kind": kind}, SEVENTEENTH) for kind in (SAME, NOISE, HALF)),
        ({"kind": RESPELLED}, SEVENTEENTH[::4]),
        ({"summary": "md5"}, SEVENTEENTH[1::4]),
        ({"task": "tensor", "kind": HALF}, SEVENTEENTH[2::4]),
    ]
    return [
        replace(case, **way)  # type: ignore[arg-type]
        for way, faults in ways
        for case in [*faults, *controls]
    ]
