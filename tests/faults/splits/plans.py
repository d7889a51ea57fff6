"""Splits that are tried, each with the run it must equal."""

from __future__ import annotations

from typing import NamedTuple

from tests.faults.splits.plan import Plan


class Way(NamedTuple):
    """A split, and the same training with fewer or other ranks."""

    plan: Plan
    whole: Plan
    native: str = ""  # how PyTorch itself splits it


def _way(whole: Plan | None = None, **sizes: object) -> Way:
    plan = Plan(**sizes)  # type: ignore[arg-type]
    plan = plan._replace(micro_batches=2 if plan.pp > 1 else 1)
    reference = plan._replace(tp=1, cp=1, ep=1, etp=0, pp=1, vpp=1, stages=(), order=Plan().order)
    return Way(plan, whole or reference)


def _joined(**sizes: object) -> Way:
    """Replicas, and a single one that takes in all their batches as one."""
    plan = Plan(**sizes, micro_batches=1)  # type: ignore[arg-type]
    return Way(plan, plan._replace(dp=1, tp=1, joined=plan.dp))


def _piped(schedule: str, **sizes: int) -> Way:
    return Way(Plan(**sizes), Plan(), f"Schedule{schedule}")  # type: ignore[arg-type]


def _native(name: str, **sizes: int) -> Way:
    return Way(Plan(**sizes), Plan(dp=sizes.get("dp", 1)), name)  # type: ignore[arg-type]


def _modern(**sizes: object) -> Way:
    plan = Plan(micro_batches=2 if sizes.get("pp") else 1, **sizes)  # type: ignore[arg-type]
    return Way(plan, plan._replace(tp=1, ep=1, etp=0, pp=1, stages=(), is_sequence=False), "modern")


def _meshed(**sizes: int) -> Way:
    plan = Plan(**sizes)  # type: ignore[arg-type]
    return Way(plan, plan._replace(tp=1, pp=1), "meshes")


WAYS = {
    "tp2ep2": _way(tp=2, dp=2, ep=2, experts=4),
    "ep2": _way(dp=2, ep=2, experts=4, style="own"),
    "ep2cp2": _way(cp=2, ep=2, experts=4),
    "grouped_ep2": _way(dp=2, ep=2, experts=4, is_grouped=True),
    "grouped_tp2": _way(tp=2, fused="grouped", groups=2),
    "grouped_experts_tp2": _way(tp=2, experts=4, is_grouped=True),
    "capacity_ep2": _way(dp=2, ep=2, experts=4, capacity=1.0),
    "cp2tp2": _way(tp=2, cp=2),
    "ulysses_tp2": _way(tp=2, cp=2, attention="heads"),
    "own_cp2": _way(cp=2, style="own"),
    "cp4": _way(cp=4),
    "ulysses_cp4": _way(cp=4, attention="heads"),
    "stacked_tp2": _way(tp=2, fused="stacked"),
    "stacked_own_tp2": _way(tp=2, fused="stacked", groups=2, style="own"),
    "gqa_tp2": _way(tp=2, groups=2),
    "gqa1_tp2": _way(tp=2, groups=1),
    "gqa2_tp4": _way(tp=4, groups=2, style="own"),
    "padded_tp2": _way(tp=2, multiple=10),
    "own_tp2": _way(tp=2, style="own"),
    "own_tp4": _way(tp=4, style="own"),
    "dropout_tp2": _way(tp=2, dropout=0.1),
    "tied_tp2": _way(tp=2, is_tied=True, optimizer="adamw"),
    "tied_pp2": _way(pp=2, is_tied=True, optimizer="adamw"),
    "tp2pp2": _way(tp=2, pp=2),
    "vpp2": _way(pp=2, vpp=2),
    "uneven_pp3": _way(pp=3, stages=(1, 3, 0)),
    "own_pp2": _way(pp=2, style="own", optimizer="sgd"),
    "adam_pp2": _way(pp=2, optimizer="adamw"),
    "order_pp2tp2": _way(tp=2, pp=2, order="pp-tp-cp-ep-dp"),
    "order_pp2dp2": _way(pp=2, dp=2, order="tp-cp-pp-ep-dp"),
    "order_dp2tp2": _way(tp=2, dp=2, order="dp-ep-tp-cp-pp"),
    "dp2tp2": _way(tp=2, dp=2, optimizer="adamw"),
    "dtensor_tp2": _native("dtensor", tp=2),
    "dtensor_tp2sp": _native("dtensor_sequence", tp=2),
    "fsdp_dp2": _native("fsdp", dp=2),
    "fsdp_tp2dp2": _native("fsdp_tp", tp=2, dp=2),
    "dp2_one": _joined(dp=2, optimizer="sgd"),
    "dp4_one": _joined(dp=4, style="own"),
    "dp2_tp2_one": _joined(tp=2, dp=2),
    "pipe_1f1b": _piped("1F1B", pp=2),
    "pipe_interleaved": _piped("Interleaved1F1B", pp=2, vpp=2),
    "pipe_zero_bubble": _piped("InterleavedZeroBubble", pp=2, vpp=2),
    "pipe_v": _piped("ZBVZeroBubble", pp=2, vpp=2),
    "pipe_dual_v": _piped("DualPipeV", pp=2, vpp=2),
    "half_tp2": _way(tp=2, is_half=True),
    "latent_tp2sp": _modern(tp=2, attention="latent", is_sequence=True),
    "latent_tp2": _modern(tp=2, attention="latent"),
    "latent_experts": _modern(
        tp=2, ep=2, etp=1, pp=2, attention="latent", is_sequence=True, experts=4
    ),
    "ahead_pp2": _modern(pp=2, attention="latent", is_ahead=True),
    "ahead_tp2pp2": _modern(tp=2, pp=2, attention="latent", is_ahead=True, is_sequence=True),
    "states_tp2": _modern(tp=2, attention="state"),
    "states_tp2sp": _modern(tp=2, attention="state", is_sequence=True),
    "fsdp_pp2dp2": _meshed(dp=2, pp=2),
    "fsdp_tp2pp2dp2": _meshed(tp=2, dp=2, pp=2),
    "norms_dp2": _native("pictures", dp=2),
    "caption_pp2": Way(Plan(pp=2), Plan(), "caption"),
    "caption_pp3": Way(Plan(pp=3), Plan(), "caption"),
    "states_pp3": _modern(pp=3, attention="state", stages=(1, 3, 0)),
}
