"""A sixteenth part: models that are also updated, faults in what follows the passes among them."""

from __future__ import annotations

from dataclasses import replace

from tests.faults.case import HALF, NOISE, RESPELLED, SAME, Case, of_all_kinds

OF_SIXTEENTH = ("taught", "warped", "foretold", "corrected", "drifted")

SIXTEENTH = [
    Case("taught", "places_by_corners", seed=1400),
    Case("taught", "averaged_words", seed=1401),
    Case("taught", "not_unit", seed=1402),
    Case("taught", "kinds_by_axis", seed=1403),
    Case("taught", "teacher_warmer", seed=1404),
    Case("taught", "centre_kept", seed=1405),
    Case("taught", "centre_of_words", seed=1406),
    Case("taught", "centre_slower", seed=1407),
    Case("taught", "same_view", seed=1408),
    Case("taught", "nearest_is_itself", seed=1409),
    Case("warped", "instance_epsilon", seed=1420),
    Case("warped", "normal_over_batch", seed=1421),
    Case("warped", "reset_left_out", seed=1422),
    Case("warped", "gates_exchanged", seed=1423),
    Case("warped", "rows_for_columns", seed=1424),
    Case("warped", "cut_to_whole", seed=1425),
    Case("warped", "corners_left_out", seed=1426),
    Case("warped", "edge_repeated", seed=1427),
    Case("warped", "weights_by_place", seed=1428),
    Case("warped", "flow_not_enlarged", seed=1429),
    Case("warped", "edges_mirrored", seed=1430),
    Case("warped", "volume_not_rooted", seed=1431),
    Case("warped", "flow_not_cut", seed=1432),
    Case("warped", "first_heaviest", seed=1433),
    Case("warped", "not_bounded", seed=1434),
    Case("foretold", "key_not_normal", 1, seed=1440),
    Case("foretold", "warmth_once", 0, seed=1441),
    Case("foretold", "last_documents_mixed", 1, seed=1442),
    Case("foretold", "heads_not_joined", 0, seed=1443),
    Case("foretold", "bound_left_out", 1, seed=1444),
    Case("foretold", "one_not_added", 0, seed=1445),
    Case("foretold", "less_smooth", seed=1446),
    Case("foretold", "peak_not_squared", seed=1447),
    Case("foretold", "peak_of_padding", seed=1448),
    Case("foretold", "places_run_on", seed=1449),
    Case("foretold", "document_ends_judged", seed=1450),
    Case("foretold", "ahead_by_two", seed=1451),
    Case("foretold", "joined_the_other_way", seed=1452),
    Case("foretold", "states_are_cut", seed=1453),
    Case("foretold", "last_word_judged", seed=1454),
    Case("foretold", "later_heavier", seed=1455),
    Case("corrected", "padded_on_both", 1, seed=1460),
    Case("corrected", "silu_left_out", 0, seed=1461),
    Case("corrected", "keys_not_unit", 1, seed=1462),
    Case("corrected", "query_not_scaled", 0, seed=1463),
    Case("corrected", "share_doubled", 1, seed=1464),
    Case("corrected", "state_is_stale", 0, seed=1465),
    Case("corrected", "inner_epsilon", 1, seed=1466),
    Case("corrected", "gate_is_sigmoid", 0, seed=1467),
    Case("corrected", "itself_corrected", 1, seed=1468),
    Case("corrected", "state_not_faded", 0, seed=1469),
    Case("corrected", "state_only_added", 1, seed=1470),
    Case("corrected", "gradient_scaled", direction="backward", seed=1471),
    Case("drifted", "time_stands", seed=1480),
    Case("drifted", "softplus_sharper", seed=1481),
    Case("drifted", "spread_without_graph", seed=1482),
    Case("drifted", "spread_averaged", seed=1483),
    Case("drifted", "probe_not_signs", seed=1484),
    Case("drifted", "last_step_missing", seed=1485),
    Case("drifted", "half_is_whole", seed=1486),
    Case("drifted", "all_weigh_alike", seed=1487),
    Case("drifted", "spread_added", seed=1488),
    Case("drifted", "spread_taken_twice", seed=1489),
    Case("drifted", "energy_heavier", seed=1490),
    Case("drifted", "step_too_long", seed=1491),
]
# What is done with the gradients once they are there; modules alone do not show it.
UPDATES = [
    Case("taught", "clipped_alone", seed=1410),
    Case("taught", "squares_faster", seed=1411),
    Case("taught", "decay_of_all", seed=1412),
    Case("taught", "not_corrected", seed=1413),
    Case("taught", "epsilon_inside", seed=1414),
    Case("taught", "rate_of_next", seed=1415),
    Case("taught", "teacher_faster", seed=1416),
    Case("corrected", "gradient_damped", seed=1472),
    Case("corrected", "not_ahead", seed=1473),
    Case("corrected", "third_factor", seed=1474),
    Case("corrected", "one_round_less", seed=1475),
    Case("corrected", "wide_not_rooted", seed=1476),
]
# In bfloat16 it is right.
OF_TYPES = [Case("corrected", "state_in_half", 1, seed=1477)]
EQUAL = [
    Case("taught", "equal_lost", seed=1495),
    Case("warped", "equal_norm", seed=1496),
    Case("warped", "equal_grid", seed=1497),
    Case("foretold", "equal_smooth", seed=1498),
    Case("corrected", "equal_solved", seed=1499),
    Case("drifted", "equal_softplus", seed=1500),
]


def sixteenth() -> list[Case]:
    """Faults, runs without any, and the same written in another formula, in three kinds."""
    of_types = [replace(case, kind=kind) for kind in (SAME, NOISE) for case in OF_TYPES]
    equal = [replace(case, kind=kind) for kind in (SAME, NOISE, HALF) for case in EQUAL]
    return [*of_all_kinds(SIXTEENTH + UPDATES, OF_SIXTEENTH, seed=1510), *of_types, *equal]


def sixteenth_otherwise() -> list[Case]:
    """Modules alone in three kinds, and every fourth with other names, checksums and tensors."""
    controls = [Case(name, None, seed=1520) for name in OF_SIXTEENTH]
    ways: list[tuple[dict[str, str], list[Case]]] = [
        *(({"level": "L0", "kind": kind}, SIXTEENTH) for kind in (SAME, NOISE, HALF)),
        ({"kind": RESPELLED}, SIXTEENTH[::4]),
        ({"summary": "md5"}, SIXTEENTH[1::4]),
        ({"task": "tensor", "kind": HALF}, SIXTEENTH[2::4]),
    ]
    return [
        replace(case, **way)  # type: ignore[arg-type]
        for way, faults in ways
        for case in [*faults, *controls]
    ]
