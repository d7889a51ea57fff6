"""Where a fault makes the calls trade places, a module and what it holds tell one story."""

from __future__ import annotations

from pathlib import Path

from msprobe_builder.dump.names import Kind, parse_name
from tests.alignment.score import partners
from tests.faults.case import Case
from tests.faults.record import run


def test_an_expert_and_its_layers_go_to_one_place(tmp_path: Path) -> None:
    run(Case("moe", "experts_swapped", 1), tmp_path)
    npu, bench = (min(tmp_path.glob(f"{side}/dump/step0/rank*")) for side in ("npu", "bench"))
    found = partners(npu, bench)
    places: dict[str, set[str]] = {}
    for name, other in found.items():
        if parse_name(name).kind is Kind.MODULE and ".blocks.1.experts." in name:
            expert, partner = (one.split(".experts.")[1].split(".")[0] for one in (name, other))
            places.setdefault(expert, set()).add(partner)
    assert len(places) == 4
    assert all(len(where) == 1 for where in places.values()), places
