"""Faults in latent attention, experts of slices, words behind words and state layers."""

from __future__ import annotations

from tests.faults.splits.fault import Fault
from tests.faults.splits.images import other_eps
from tests.faults.splits.modern import changed
from tests.faults.splits.planting import other_epsilon, other_factor, scaled, steeper

OF_MODERN = [
    Fault(name, split, changed(rank, path, change), nodes, (rank,))
    for name, split, rank, path, change, nodes in [
        (
            "latent norm of one rank",
            "latent_tp2sp",
            1,
            "layers.1.mix.pair_norm",
            other_epsilon,
            ("layers.1.mix.pair_norm",),
        ),
        (
            "shard scaled",
            "latent_tp2sp",
            0,
            "layers.2.mix.ask_up.weight",
            scaled(1.05),
            ("layers.2.mix.ask_up",),
        ),
        ("scale of one rank", "latent_tp2sp", 1, "layers.1.mix", other_factor, ("layers.1.mix",)),
        (
            "map drifted",
            "latent_tp2",
            1,
            "layers.1.mix.pair_down.weight",
            scaled(1.05),
            ("layers.1.mix.pair_down",),
        ),
        ("scale of one rank", "latent_tp2", 0, "layers.2.mix", other_factor, ("layers.2.mix",)),
        (
            "router of one rank",
            "latent_experts",
            3,
            "layers.0.spread.router",
            steeper,
            ("layers.2.spread.router",),
        ),
        (
            "shared expert scaled",
            "latent_experts",
            1,
            "layers.1.feed.down.weight",
            scaled(1.1),
            ("layers.1.feed.down",),
        ),
        (
            "weight of one expert",
            "latent_experts",
            2,
            "layers.1.spread.experts.0.down.weight",
            scaled(1.1),
            ("layers.3.spread.experts.0.down",),
        ),
        ("join scaled", "ahead_pp2", 1, "ahead.join.weight", scaled(1.03), ("ahead.join",)),
        ("copy of words", "ahead_pp2", 1, "words.weight", scaled(1.02), ("words",)),
        (
            "norm of the first stage",
            "ahead_pp2",
            0,
            "layers.1.after",
            other_epsilon,
            ("layers.1.after",),
        ),
        ("norm ahead", "ahead_tp2pp2", 3, "ahead.of_words", other_epsilon, ("ahead.of_words",)),
        ("copy of words", "ahead_tp2pp2", 2, "words.weight", scaled(1.02), ("words",)),
        (
            "decay of one rank",
            "states_tp2",
            1,
            "layers.1.mix.decay",
            scaled(1.05),
            ("layers.1.mix",),
        ),
        ("taps of one rank", "states_tp2", 0, "layers.2.mix.taps", scaled(1.05), ("layers.2.mix",)),
        (
            "rates of one rank",
            "states_tp2sp",
            1,
            "layers.1.mix.rates.weight",
            scaled(1.05),
            ("layers.1.mix.rates",),
        ),
        (
            "skip of one rank",
            "states_tp2sp",
            1,
            "layers.2.mix.skip",
            scaled(1.05),
            ("layers.2.mix",),
        ),
        ("step of a stage", "states_pp3", 1, "layers.1.mix.step", scaled(1.05), ("layers.2.mix",)),
        ("norm of a stage without layers", "states_pp3", 2, "last", other_epsilon, ("last",)),
    ]
]

# Weights and norms of stages, replicas and parts of layers that PyTorch cuts; norms over batches.
OF_OTHERS = [
    *(
        Fault(name, split, changed(rank, path, by), (path.removesuffix(".weight"),), (rank,))
        for name, split, rank, path, by in [
            ("weight of a rank", "fsdp_pp2dp2", 2, "steps.5.gate.w2.weight", scaled(1.1)),
            ("epsilon of a rank", "fsdp_pp2dp2", 3, "steps.6.two", other_eps),
            ("weight of a rank", "fsdp_tp2pp2dp2", 5, "steps.5.gate.w2.weight", scaled(1.1)),
            ("epsilon of a rank", "fsdp_tp2pp2dp2", 2, "steps.2.two", other_eps),
            ("epsilon of a replica", "norms_dp2", 1, "parts.1.norm_two", other_eps),
            ("weight of a replica", "norms_dp2", 0, "parts.0.two.weight", scaled(1.05)),
            ("bridge scaled", "caption_pp2", 0, "bridge.weight", scaled(1.05)),
            ("epsilon of a stage", "caption_pp2", 1, "telling.2.two", other_eps),
            ("pieces scaled", "caption_pp3", 0, "pieces.weight", scaled(1.02)),
            ("weight of a stage", "caption_pp3", 2, "telling.3.gate.w1.weight", scaled(1.03)),
        ]
    )
]
