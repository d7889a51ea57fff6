"""Faults on one rank of a split training, and where each must be found."""

from __future__ import annotations

from tests.faults.splits import native
from tests.faults.splits.fault import Fault as Fault
from tests.faults.splits.modern_faults import OF_MODERN, OF_OTHERS
from tests.faults.splits.planting import (
    at,
    based,
    drifted,
    drop,
    each,
    exchange_experts,
    in_halves,
    knob,
    knob_of_all,
    lean,
    of_all,
    on_all,
    other_epsilon,
    other_factor,
    put_nan,
    scaled,
    shifted,
    steeper,
    swap_fused,
    swap_keys_and_values,
    swap_rows,
    swap_rows_of_heads,
    twice,
    without_sum,
)
from tests.faults.splits.schedule_faults import OF_SCHEDULES

MIX, FEED = "0:blocks.1.mix", "0:blocks.1.feed"
FAULTS = [
    # experts
    Fault(
        "experts exchanged on one rank",
        "tp2ep2",
        at(FEED, 2, exchange_experts),
        ("blocks.1.feed.experts.2", "blocks.1.feed.experts.3"),
        (2, 3),
    ),
    Fault(
        "router scaled on one rank",
        "tp2ep2",
        at(f"{FEED}.router", 1, steeper),
        ("blocks.1.feed.router",),
        (1,),
    ),
    Fault(
        "weight of one expert",
        "tp2ep2",
        at(f"{FEED}.experts.1.down.weight", 3, scaled(1.1)),
        ("blocks.1.feed.experts.3.down",),
        (3,),
    ),
    Fault(
        "router bias on one ep rank",
        "ep2",
        at(f"{FEED}.router", 1, lean),
        ("blocks.1.feed.router",),
        (1,),
    ),
    Fault(
        "experts exchanged on one rank",
        "ep2",
        at(FEED, 1, exchange_experts),
        ("blocks.1.feed.experts.2", "blocks.1.feed.experts.3"),
        (1,),
    ),
    Fault(
        "experts exchanged",
        "grouped_ep2",
        at(f"{FEED}.experts.weight2", 1, lambda w: w.data.copy_(w.data.flip(0).clone())),
        ("blocks.1.feed.experts",),
        (1,),
    ),
    Fault(
        "one expert scaled",
        "grouped_ep2",
        at(f"{FEED}.experts.weight1", 0, lambda w: w.data[1].mul_(1.2)),
        ("blocks.1.feed.experts",),
        (0,),
    ),
    Fault(
        "capacity of one rank",
        "capacity_ep2",
        at(FEED, 1, lambda s: setattr(s, "capacity", 0.5)),
        ("blocks.1.feed",),
        (1,),
    ),
    # sequences
    Fault(
        "rotary offset of one cp rank", "cp2tp2", at(MIX, 2, shifted(2)), ("blocks.1.mix",), (2,)
    ),
    Fault(
        "rotary offset of both ranks of a part",
        "cp2tp2",
        of_all("0:blocks.1.mix", "cp", shifted(1)),
        ("blocks.1.mix",),
        (2, 3),
    ),
    Fault(
        "rotary offset of one tp rank", "cp2tp2", at(MIX, 1, shifted(3)), ("blocks.1.mix",), (1,)
    ),
    Fault("scale of one rank", "cp2tp2", at(MIX, 3, other_factor), ("blocks.1.mix",), (3,)),
    Fault(
        "keys and values exchanged",
        "cp2tp2",
        at(MIX, 1, swap_keys_and_values),
        ("blocks.1.mix.key", "blocks.1.mix.tell"),
        (1,),
    ),
    Fault(
        "norm drifted",
        "ulysses_tp2",
        at("0:blocks.1.before.weight", 2, scaled(1.03)),
        ("blocks.1.before",),
        (2,),
    ),
    Fault(
        "rotary base of one rank", "ulysses_tp2", at(MIX, 1, based(50.0)), ("blocks.1.mix",), (1,)
    ),
    Fault(
        "stale weight on one rank",
        "ulysses_tp2",
        at(f"{MIX}.ask.weight", 3, drifted),
        ("blocks.1.mix.ask",),
        (3,),
    ),
    # tensor parallel, own names and Megatron's
    Fault(
        "rotary offset of one rank", "stacked_tp2", at(MIX, 1, shifted(3)), ("blocks.1.mix",), (1,)
    ),
    Fault(
        "keys and values exchanged", "stacked_tp2", at(MIX, 1, swap_fused), ("blocks.1.mix",), (1,)
    ),
    Fault(
        "dropout of one rank",
        "dropout_tp2",
        at("0:blocks.1", 1, drop(0.3)),
        ("blocks.1.Functional.dropout", "blocks.1.", "dropout"),
        (1,),
    ),
    Fault(
        "shard scaled",
        "grouped_tp2",
        at(f"{MIX}.into.weight", 0, scaled(1.05)),
        ("blocks.1.mix.into",),
        (0,),
    ),
    Fault(
        "head order",
        "gqa_tp2",
        at(MIX, 1, swap_rows_of_heads),
        ("blocks.1.mix.ask",),
        (1,),
    ),
    Fault(
        "keys of one rank",
        "gqa1_tp2",
        at(f"{MIX}.key.weight", 1, scaled(1.1)),
        ("blocks.1.mix.key",),
        (1,),
    ),
    Fault(
        "vocabulary rows exchanged",
        "padded_tp2",
        at("0:words.weight", 1, swap_rows),
        ("words",),
        (1,),
    ),
    Fault(
        "vocabulary rows exchanged", "own_tp2", at("0:words.weight", 0, swap_rows), ("words",), (0,)
    ),
    Fault(
        "reduction missing on one rank",
        "own_tp2",
        at(f"{FEED}.down", 1, without_sum),
        ("blocks.1.feed.down",),
        (1,),
    ),
    Fault(
        "reduction doubled", "own_tp2", on_all(f"{MIX}.out", twice), ("blocks.1.mix.out",), (0, 1)
    ),
    Fault(
        "shard scaled",
        "own_tp2",
        at(f"{FEED}.up.weight", 1, scaled(1.05)),
        ("blocks.1.feed.up",),
        (1,),
    ),
    Fault(
        "NaN on one rank",
        "own_tp2",
        at(f"{FEED}.gate.weight", 1, put_nan),
        ("blocks.1.feed.gate",),
        (1,),
    ),
    Fault(
        "bfloat16 on one rank",
        "own_tp2",
        at(f"{FEED}.up", 1, in_halves),
        ("blocks.1.feed.up",),
        (1,),
    ),
    Fault(
        "epsilon of one rank",
        "own_tp2",
        at("0:blocks.2.before", 1, other_epsilon),
        ("blocks.2.before",),
        (1,),
    ),
    Fault(
        "reduction missing on one rank",
        "grouped_tp2",
        at(f"{FEED}.down", 0, without_sum),
        ("blocks.1.feed.down",),
        (0,),
    ),
    Fault("tied rows exchanged", "tied_tp2", at("0:words.weight", 1, swap_rows), ("words",), (1,)),
    # pipelines
    Fault(
        "rotary offset of a stage",
        "tp2pp2",
        of_all("0:blocks", "pp", each(shifted(2))),
        ("blocks.2.mix",),
        (2, 3),
    ),
    Fault(
        "tied copy is stale",
        "tied_pp2",
        at("0:head.scores.weight", 1, drifted),
        ("head", "words"),
        (1,),
    ),
    Fault(
        "weight of a chunk",
        "vpp2",
        at("1:blocks.0.feed.down.weight", 1, scaled(1.1)),
        ("blocks.3.feed.down",),
        (1,),
    ),
    Fault(
        "norm of a stage",
        "uneven_pp3",
        at("0:blocks.2.after.weight", 1, scaled(1.05)),
        ("blocks.3.after",),
        (1,),
    ),
    Fault(
        "rotary base of a stage",
        "order_pp2tp2",
        of_all("0:blocks", "pp", each(based(10.0))),
        ("blocks.2.mix",),
        (1, 3),
    ),
    Fault(
        "weight of one rank",
        "order_pp2tp2",
        at("0:blocks.1.feed.down.weight", 3, scaled(1.05)),
        ("blocks.3.feed.down",),
        (3,),
    ),
    # what PyTorch splits
    Fault(
        "shard scaled",
        "dtensor_tp2",
        native.scaled(1, "steps.1.gate.w2.weight", 1.05),
        ("steps.1.gate.w2",),
        (1,),
    ),
    Fault(
        "keys and values exchanged",
        "dtensor_tp2",
        native.exchanged(1, "steps.1.look.wk.weight", "steps.1.look.wv.weight"),
        ("steps.1.look.wk", "steps.1.look.wv"),
        (1,),
    ),
    Fault(
        "vocabulary rows exchanged",
        "dtensor_tp2",
        native.turned_rows(0, "table.weight"),
        ("table",),
        (0,),
    ),
    Fault(
        "norm drifted",
        "dtensor_tp2sp",
        native.scaled(1, "steps.1.two.weight", 1.03),
        ("steps.1.two",),
        (1,),
    ),
    Fault(
        "shard scaled",
        "fsdp_tp2dp2",
        native.scaled(3, "steps.2.look.wo.weight", 1.1),
        ("steps.2.look.wo",),
        (1, 3),
    ),
    Fault(
        "shard of one replica is stale",
        "fsdp_dp2",
        native.scaled(1, "steps.0.gate.w1.weight", 1.05),
        ("steps.0.gate.w1",),
        (0, 1),
    ),
    # replicas
    Fault(
        "loss weight of one replica",
        "dp2tp2",
        knob_of_all("dp", loss_weight=1.3),
        ("__mul__",),
        (2, 3),
    ),
    Fault(
        "gradient not averaged on one rank",
        "dp2tp2",
        knob(3, averages=False),
        ("__itruediv__", "__idiv__", "step"),
        (3,),
    ),
    Fault("step skipped on one rank", "dp2tp2", knob(2, steps=False), ("",), (2,)),
    Fault(
        "learning rate of a stage",
        "adam_pp2",
        knob_of_all("pp", rate=0.02),
        ("step", "add", "mul", "addcdiv"),
        (1,),
    ),
    Fault("weight decay of one rank", "dp2tp2", knob(1, decay=0.5), ("mul",), (1,)),
    Fault(
        "stale weight of one replica",
        "dp2tp2",
        at(f"{MIX}.out.weight", 3, drifted),
        ("blocks.1.mix.out",),
        (3,),
    ),
    # replicas against one that takes in all their batches
    Fault(
        "epsilon of one replica",
        "dp2_one",
        at("0:blocks.2.before", 1, other_epsilon),
        ("blocks.2.before",),
        (1,),
    ),
    Fault(
        "weight of one replica",
        "dp2_one",
        at(f"{FEED}.down.weight", 1, scaled(1.05)),
        ("blocks.1.feed.down",),
        (1,),
    ),
    Fault(
        "epsilon of one replica",
        "dp4_one",
        at("0:blocks.1.after", 2, other_epsilon),
        ("blocks.1.after",),
        (2,),
    ),
    Fault(
        "stale weight of one replica",
        "dp4_one",
        at(f"{MIX}.out.weight", 3, drifted),
        ("blocks.1.mix.out",),
        (3,),
    ),
    *OF_SCHEDULES,
    *OF_MODERN,
    *OF_OTHERS,
]
