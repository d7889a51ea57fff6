"""One model from two libraries, with equal weights and data; judged by the values of outputs.

Recorded with this collector (level mix, statistics) from torchvision 0.28, timm 1.0.31 and
transformers 5.23, small configurations with random weights that were carried over: `mobilenet`
is torchvision's MobileNet V2 against the one of transformers, whose layers are counted from
another one; `resnet` torchvision's ResNet against that of transformers, which has an identity in
each shortcut; `distilbert` DistilBERT against BERT, which has a norm in its attention; `gpt2_opt`
GPT-2 against OPT, which shapes query, key and value in another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder.dump.names import parse_name
from msprobe_builder.operators.table import paired_name
from tests.alignment.respell import Recording, recording, without_statistics
from tests.alignment.score import partners

Value = tuple[int, float, float, float]  # number of elements, largest, smallest, norm


def tensors(value: Any) -> Iterator[Value]:
    if isinstance(value, list):
        for one in value:
            yield from tensors(one)
    elif isinstance(value, dict) and value.get("Norm") is not None:
        size = int(np.prod(value["shape"]))
        yield size, float(value["Max"]), float(value["Min"]), float(value["Norm"])
    elif isinstance(value, dict) and "type" not in value:
        for one in value.values():
            yield from tensors(one)


def outputs(side: Recording) -> dict[str, list[Value]]:
    return {name: list(tensors(record.get("output"))) for name, record in side.data.items()}


def agree(mine: list[Value], theirs: list[Value]) -> bool:
    """Whether two calls put out one tensor that is the same."""
    return any(
        one[0] == two[0] and np.allclose(one[1:], two[1:], rtol=0, atol=2e-3 * max(one[3], 1e-12))
        for one in mine
        for two in theirs
    )


def only_once(values: dict[str, list[Value]]) -> dict[tuple[Any, ...], str]:
    """Calls by operator, direction and outputs, where one call alone has these."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for name, value in values.items():
        if value and not name.startswith("Module."):
            parsed = parse_name(name)
            sizes = tuple((one[0], f"{one[3]:.3g}") for one in value)
            key = (paired_name(parsed.stem), parsed.direction, sizes)
            found.setdefault(key, []).append(name)
    return {key: names[0] for key, names in found.items() if len(names) == 1}


@pytest.mark.parametrize("is_structure", [False, True], ids=["statistics", "structure"])
@pytest.mark.parametrize(
    ("name", "found_at_least"),
    [("mobilenet", 0.99), ("resnet", 0.99), ("distilbert", 0.99), ("gpt2_opt", 0.7)],
)
def test_libraries(pairs: Path, name: str, found_at_least: float, is_structure: bool) -> None:
    npu, bench = (recording(pairs / name / side / "step0" / "rank0") for side in ("npu", "bench"))
    mine, theirs = outputs(npu), outputs(bench)
    first, second = only_once(mine), only_once(theirs)
    right = {first[key]: second[key] for key in first.keys() & second.keys()}
    assert len(right) > 80
    if is_structure:
        npu, bench = without_statistics(npu), without_statistics(bench)
    found = partners(npu.source(), bench.source())
    assert not [call for call, other in right.items() if found.get(call, other) != other]
    assert sum(call in found for call in right) >= found_at_least * len(right)
    known = [(a, b) for a, b in found.items() if mine.get(a) and theirs.get(b)]
    same_sizes = [(a, b) for a, b in known if mine[a][0][0] == theirs[b][0][0]]
    assert len(same_sizes) > 120
    wrong = [(a, b) for a, b in same_sizes if not agree(mine[a], theirs[b])]
    assert len(wrong) <= 0.005 * len(known), wrong
