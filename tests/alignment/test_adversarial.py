"""A network trained against another one, by two authors; judged by the values of outputs.

One author goes back for what is real and for what is made apart, the other one once for both, and
shows what is made first: rounds that are no micro-steps, and passes of one network in another
order. Equal weights; `bench_other_weights` makes the same calls with other weights and data.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.alignment.respell import Recording, recording, without_calls, without_statistics
from tests.alignment.score import partners
from tests.alignment.test_two_libraries import only_once, outputs

_SIDES = "npu", "bench", "bench_other_weights"


@pytest.fixture(scope="module")
def sides(pairs: Path) -> dict[str, Recording]:
    return {side: recording(pairs / "gan" / side / "step0" / "rank0") for side in _SIDES}


@pytest.fixture(scope="module")
def right(sides: dict[str, Recording]) -> dict[str, str]:
    """Calls of which one alone of each side puts out this."""
    first, second = (only_once(outputs(sides[side])) for side in ("npu", "bench"))
    found = {first[key]: second[key] for key in first.keys() & second.keys()}
    assert len(found) > 40
    return found


@pytest.mark.parametrize("bench", ["bench", "bench_other_weights"])
def test_rounds_are_one_sequence(
    sides: dict[str, Recording], right: dict[str, str], bench: str
) -> None:
    found = partners(sides["npu"].source(), sides[bench].source())
    wrong = [call for call, other in right.items() if found.get(call, other) != other]
    assert len(wrong) <= 0.03 * len(right), wrong
    assert sum(found.get(call) == other for call, other in right.items()) >= 0.94 * len(right)


def test_passes_stay_grey_where_nothing_tells(
    sides: dict[str, Recording], right: dict[str, str]
) -> None:
    npu, bench = without_statistics(sides["npu"]), without_statistics(sides["bench"])
    found = partners(npu.source(), bench.source())
    assert not [call for call, other in right.items() if found.get(call, other) != other]


def test_modules_alone_are_not_taken_for_other_passes(sides: dict[str, Recording]) -> None:
    """The discriminator is shown three tensors, and nothing tells which: all of it is grey."""
    npu = without_calls(sides["npu"])
    bench = without_calls(sides["bench_other_weights"])
    found = partners(npu.source(), bench.source())
    weights = ("Conv2d", "BatchNorm2d", "Conv2d")
    assert not [
        name
        for name in found
        if name.startswith("Module.1.main.")
        and name.split(".")[4] in weights
        and ".forward." in name
    ]
    assert any(name.startswith("Module.0.main.") for name in found)
