"""What contradicts itself stays grey; each pair holds equal weights and data by construction.

`loops` is an LSTM of two layers as two loops: layer after layer against step after step; its layers
are `cells.0` and `cells.1` against `l0` and `l1`. `unet` is one U-Net in two styles: a SiLU used
three times in each block against one in each of its sequences.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.alignment.respell import Recording, recording, without_statistics
from tests.alignment.score import partners


def sides(pairs: Path, name: str) -> tuple[Recording, Recording]:
    npu, bench = (recording(pairs / name / side / "step0" / "rank0") for side in ("npu", "bench"))
    return npu, bench


def cell(name: str) -> tuple[str, ...] | None:
    """Layer, place inside, direction and time step of a module of the loops."""
    found = re.fullmatch(r"Module\.(?:cells\.|l)(\d)\.(.+)\.(\w+)\.(\d+)", name)
    return found.groups() if found else None


def test_loops_in_another_order_are_paired_by_their_layers(pairs: Path) -> None:
    npu, bench = sides(pairs, "loops")
    found = partners(npu.source(), bench.source())
    cells = [name for name in npu.origin if cell(name)]
    assert len(cells) == 72
    matched = [name for name in cells if name in found]
    assert len(matched) >= 0.85 * len(cells)
    assert [cell(found[name]) for name in matched] == [cell(name) for name in matched]


def test_one_layer_is_not_matched_with_several(pairs: Path) -> None:
    """Without statistics nothing tells the layers apart: equal calls stand at equal places."""
    npu, bench = (without_statistics(side) for side in sides(pairs, "loops"))
    found = partners(npu.source(), bench.source())
    wrong = [(one, two) for one, two in found.items() if cell(one) != cell(two)]
    assert not wrong


def test_what_has_no_weights_does_not_match_what_holds_them(pairs: Path) -> None:
    npu, bench = sides(pairs, "unet")
    found = partners(npu.source(), bench.source())
    assert len(found) > 500
    for one, two in found.items():
        assert not (".SiLU." in one and ".Sequential." in two), (one, two)


def test_without_statistics_a_simple_module_has_weights_of_one_size(pairs: Path) -> None:
    npu, bench = (without_statistics(side) for side in sides(pairs, "unet"))
    found = partners(npu.source(), bench.source())

    def shapes(side: Recording, name: str) -> list[int]:
        weights = side.data[name].get("parameters", {}).values()
        sizes = []
        for weight in weights:
            size = 1
            for length in weight["shape"]:
                size *= length
            sizes.append(size)
        return sorted(sizes)

    convolutions = [(one, two) for one, two in found.items() if ".Conv2d.forward." in one]
    assert len(convolutions) > 5
    for one, two in convolutions:
        assert shapes(npu, one) == shapes(bench, two), (one, two)


def test_without_statistics_blocks_are_not_counted_by_their_place_among_others(
    pairs: Path,
) -> None:
    """A block at place 0 of each of its sequences is no layer 0; values of outputs judge."""
    npu, bench = sides(pairs, "unet")
    found = partners(without_statistics(npu).source(), without_statistics(bench).source())

    def norm(side: Recording, name: str) -> float:
        output = side.data.get(name, {}).get("output") or [None]
        return float((output[0] or {}).get("Norm") or 0.0)

    norms = [(norm(npu, one), norm(bench, two), one, two) for one, two in found.items()]
    known = [row for row in norms if row[0] and row[1]]
    wrong = [row for row in known if abs(row[0] - row[1]) > 1e-3 * max(row[0], row[1])]
    assert len(known) > 240
    assert len(wrong) <= 0.02 * len(known), wrong
