"""A fifteenth part: faults, other ways of recording them, and many runs without any."""

from __future__ import annotations

from dataclasses import replace

from tests.faults.case import (
    AUTOCAST,
    FP16,
    FP16_TWICE,
    HALF,
    HALF_TWICE,
    KERNELS,
    NOISE,
    ONE_BATCH,
    PURE,
    RECOMPUTED,
    REFERENCE_KERNELS,
    REFERENCE_RECOMPUTED,
    RESPELLED,
    SAME,
    Case,
    of_all_kinds,
)

OF_FIFTEENTH = (
    *("parallel", "sandwich", "gated", "own", "molecule", "penalised", "asked"),
    *("roomy", "voiced", "untangled", "anchorless", "squashed", "paired"),
)

FIFTEENTH = [
    Case("parallel", "pairs_beside", 1, seed=1100),
    Case("parallel", "key_not_turned", 0, seed=1101),
    Case("parallel", "scale_of_width", 1, seed=1102),
    Case("parallel", "mask_lost_later", 0, seed=1103),
    Case("parallel", "one_after_another", 1, seed=1104),
    Case("parallel", "gelu_by_tanh", 0, seed=1105),
    Case("parallel", "attention_not_added", 1, seed=1106),
    Case("parallel", "branches_averaged", 0, seed=1107),
    Case("parallel", "weight_changed", seed=1108, size=(("width", 48), ("layers", 3))),
    Case("parallel", "gradient_scaled", direction="backward", seed=1109),
    Case("sandwich", "mean_taken_off", 1, seed=1110),
    Case("sandwich", "after_epsilon", 0, seed=1111),
    Case("sandwich", "gain_from_zero", 1, seed=1112),
    Case("sandwich", "scalar_of_head", 0, seed=1113),
    Case("sandwich", "cap_tighter", 1, seed=1114),
    Case("sandwich", "window_in_others", seed=1115),
    Case("sandwich", "after_skipped", 0, seed=1116),
    Case("sandwich", "gate_is_silu", 1, seed=1117),
    Case("sandwich", "last_cap_missing", seed=1118),
    Case("gated", "slope_doubled", direction="backward", seed=1120),
    Case("gated", "power_halved", 1, seed=1121),
    Case("gated", "input_not_scaled", 0, seed=1122),
    Case("gated", "state_leaks", 1, seed=1123),
    Case("gated", "state_is_cut", 0, seed=1124, direction="backward"),
    Case("gated", "padded_behind", 1, seed=1125),
    Case("gated", "gelu_left_out", 0, seed=1126),
    Case("gated", "gate_by_sum", 1, seed=1127),
    Case("own", "own_epsilon", 1, seed=1130),
    Case("own", "projection_missing", 1, seed=1131, direction="backward"),
    Case("own", "weight_averaged", 0, seed=1132, direction="backward"),
    Case("own", "slope_cut_short", 1, seed=1133, direction="backward"),
    Case("own", "up_without_gradient", 0, seed=1134, direction="backward"),
    Case("own", "turned_on", 1, seed=1135, direction="backward"),
    Case("own", "shares_dropped", 0, seed=1136),
    Case("own", "key_not_scaled", 1, seed=1137, direction="backward"),
    Case("own", "all_counted", seed=1138),
    Case("own", "label_not_taken_off", seed=1139, direction="backward"),
    Case("own", "gradient_not_averaged", seed=1140, direction="backward"),
    Case("molecule", "not_shifted", 1, seed=1141),
    Case("molecule", "cut_not_used", 0, seed=1142),
    Case("molecule", "receiver_told", 1, seed=1143),
    Case("molecule", "largest_kept", 0, seed=1144),
    Case("molecule", "itself_too", seed=1145),
    Case("molecule", "basis_wider", seed=1146),
    Case("molecule", "energy_averaged", seed=1147),
    Case("molecule", "force_sign", seed=1148),
    Case("molecule", "forces_heavier", seed=1149),
    Case("penalised", "smooth_up", seed=1150),
    Case("penalised", "leak_larger", seed=1151),
    Case("penalised", "spread_by_less", seed=1152),
    Case("penalised", "averaged_places", seed=1153),
    Case("penalised", "fake_not_cut", seed=1154),
    Case("penalised", "margin_wider", seed=1155),
    Case("penalised", "norm_not_squared", seed=1156),
    Case("penalised", "sign_turned", seed=1157),
    Case("penalised", "penalty_heavier", seed=1158),
    Case("asked", "cover_not_told", seed=1160),
    Case("asked", "score_linear", seed=1161),
    Case("asked", "padding_heard", seed=1162),
    Case("asked", "ends_exchanged", seed=1163),
    Case("asked", "bridge_not_crossed", seed=1164),
    Case("asked", "cover_of_last", seed=1165),
    Case("asked", "context_is_cut", seed=1166, direction="backward"),
    Case("asked", "told_before", seed=1167),
    Case("asked", "one_word_late", seed=1168),
    Case("asked", "padding_judged", seed=1169),
    Case("asked", "cover_heavier", seed=1170),
    Case("roomy", "not_shared_out", 1, seed=1171),
    Case("roomy", "less_room", 0, seed=1172),
    Case("roomy", "second_as_first", 1, seed=1173),
    Case("roomy", "largest_wins", 0, seed=1174),
    Case("roomy", "scores_summed", 1, seed=1175),
    Case("roomy", "balance_heavier", 0, seed=1176),
    Case("roomy", "always_open", 1, seed=1177),
    Case("roomy", "last_extra_only", seed=1178),
    Case("voiced", "wave_not_squared", 1, seed=1180),
    Case("voiced", "wave_times_rate", 0, seed=1181),
    Case("voiced", "window_of_ones", seed=1182),
    Case("voiced", "power_not_squared", seed=1183),
    Case("voiced", "floor_higher", seed=1184),
    Case("voiced", "leak_left_out", seed=1185),
    Case("voiced", "padded_by_mirror", seed=1186),
    Case("voiced", "not_halved", seed=1187),
    Case("voiced", "square_of_wave", seed=1188),
    Case("untangled", "words_not_normal", seed=1190),
    Case("untangled", "places_not_logged", seed=1191),
    Case("untangled", "words_without_bias", seed=1192),
    Case("untangled", "all_guessed", seed=1193),
    Case("untangled", "places_by_one_matrix", 1, seed=1194),
    Case("untangled", "scale_of_one", 0, seed=1195),
    Case("untangled", "back_not_turned", 1, seed=1196),
    Case("untangled", "back_left_out", 0, seed=1197),
    Case("untangled", "norm_in_front", 1, seed=1198),
    Case("anchorless", "newest_first", seed=1200),
    Case("anchorless", "pooled_by_maximum", seed=1201),
    Case("anchorless", "corners_aligned", seed=1202),
    Case("anchorless", "rates_exchanged", seed=1203),
    Case("anchorless", "sides_by_softplus", seed=1204),
    Case("anchorless", "stride_left_out", seed=1205),
    Case("anchorless", "focused_less", seed=1206),
    Case("anchorless", "alpha_turned", seed=1207),
    Case("anchorless", "places_counted", seed=1208),
    Case("anchorless", "common_counted_twice", seed=1209),
    Case("anchorless", "hull_left_out", seed=1210),
    Case("anchorless", "middle_not_rooted", seed=1211),
    Case("squashed", "spread_wider", seed=1220),
    Case("squashed", "squash_not_counted", seed=1221),
    Case("squashed", "alpha_not_cut", seed=1222, direction="backward"),
    Case("squashed", "judged_by_new", seed=1223),
    Case("squashed", "judges_averaged", seed=1224),
    Case("squashed", "entropy_punished", seed=1225),
    Case("squashed", "impatient", seed=1226),
    Case("squashed", "end_not_seen", seed=1227),
    Case("squashed", "second_critic_idle", seed=1228),
    Case("squashed", "huber", seed=1229),
    Case("squashed", "state_not_cut", seed=1230),
    Case("squashed", "entropy_goal", seed=1231),
    Case("paired", "pool_without_mlp", seed=1240),
    Case("paired", "places_in_columns", seed=1241),
    Case("paired", "sentence_averaged", seed=1242),
    Case("paired", "largest_is_one", seed=1243),
    Case("paired", "rate_not_exp", seed=1244),
    Case("paired", "bias_not_added", seed=1245),
    Case("paired", "others_not_pushed", seed=1246),
    Case("paired", "pairs_averaged", seed=1247),
]
# In bfloat16 these calls are right.
OF_TYPES = [
    Case("sandwich", "norm_in_half", 1, seed=1250),
    Case("roomy", "routed_in_half", 0, seed=1251),
]
EQUAL = [
    Case("parallel", "equal_softmax", seed=1260),
    Case("parallel", "equal_gelu", seed=1261),
    Case("sandwich", "equal_norm", seed=1262),
    Case("gated", "equal_step", seed=1263),
    Case("own", "equal_norm", seed=1264),
    Case("molecule", "equal_distance", seed=1265),
    Case("molecule", "equal_gathered", seed=1266),
    Case("penalised", "equal_hinge", seed=1267),
    Case("asked", "equal_mask", seed=1268),
    Case("roomy", "equal_balance", seed=1269),
    Case("voiced", "equal_wave", seed=1270),
    Case("untangled", "equal_product", seed=1271),
    Case("anchorless", "equal_missed", seed=1272),
    Case("squashed", "equal_density", seed=1273),
    Case("paired", "equal_each", seed=1274),
]


def fifteenth() -> list[Case]:
    """Faults, runs without any, and the same written in another formula, in three kinds."""
    of_types = [replace(case, kind=kind) for kind in (SAME, NOISE) for case in OF_TYPES]
    equal = [replace(case, kind=kind) for kind in (SAME, NOISE, HALF) for case in EQUAL]
    return [*of_all_kinds(FIFTEENTH, OF_FIFTEENTH, seed=1300), *of_types, *equal]


_SUMMED = ("parallel", "sandwich", "gated")  # whose loss is a mean of all words
_ALONE = ("asked",)  # the CPU has no such LSTM


def fifteenth_otherwise() -> list[Case]:
    """Every third of them in other ways, and the runs without a fault in all of these."""
    chosen = FIFTEENTH[1::3]
    ways: list[tuple[dict[str, str], bool]] = [
        ({"kind": RESPELLED}, True),
        *(({"level": "L0", "kind": kind}, True) for kind in (SAME, NOISE, HALF)),
        ({"summary": "md5"}, True),
        *(({"task": "tensor", "kind": kind}, True) for kind in (NOISE, HALF)),
        *(({"kind": kind}, True) for kind in (AUTOCAST, FP16)),
        *(({"kind": kind}, False) for kind in (PURE, FP16_TWICE, HALF_TWICE, ONE_BATCH)),
    ]
    found: list[Case] = []
    for way, with_faults in ways:
        controls = [Case(name, None, seed=1310) for name in OF_FIFTEENTH]
        cases = (chosen if with_faults else []) + controls
        kind = way.get("kind")
        if kind == ONE_BATCH:
            cases = [case for case in cases if case.architecture in _SUMMED]
        if kind in (AUTOCAST, FP16, PURE, FP16_TWICE):
            cases = [case for case in cases if case.architecture not in _ALONE]
        found += [replace(case, **way) for case in cases]  # type: ignore[arg-type]
    for kind in (KERNELS, REFERENCE_KERNELS, RECOMPUTED, REFERENCE_RECOMPUTED):
        names = ("parallel",) if "kernels" in kind else ("parallel", "sandwich")
        faults = [case for case in FIFTEENTH if case.architecture in names]
        controls = [Case(name, None, seed=1320) for name in names]
        found += [replace(case, kind=kind) for case in faults + controls]
    found += [replace(case, micro_steps=4) for case in FIFTEENTH[2::9]]
    return found
