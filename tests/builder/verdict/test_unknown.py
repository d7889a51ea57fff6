"""What says nothing must neither accuse nor excuse: fresh memory, random numbers, structure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builder.small_dumps import Record, forward, number, tensor, write_dump
from tests.builder.verdict.test_noise_path import verdict


def named(norm: float, **other: Any) -> Record:
    return tensor(norm, high=norm / 2, low=-norm / 3, **other)


def asked(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    npu: dict[str, Record],
    bench: dict[str, Record],
    task: str = "statistics",
) -> dict[str, Any]:
    sides = {"npu": npu, "bench": bench}
    paths = {name: write_dump(folder / name, data, task=task) for name, data in sides.items()}
    return verdict(folder / "build", capsys, **paths)


def received(garbage: float, *, factor: float = 1.0) -> dict[str, Record]:
    """Memory as it was is given to recv, which fills it; what comes then may be wrong."""
    memory, own = named(garbage), named(3.0)
    return {
        "Torch.empty.0.forward": forward([number(4)], [memory]),
        "Distributed.recv.0.forward": forward([memory, number(1)], [own]),
        "Functional.relu.0.forward": forward([own], [named(2.0)]),
        "Tensor.__mul__.0.forward": forward([named(2.0)], [named(5.0 * factor)]),
        "Torch.tanh.0.forward": forward([named(5.0 * factor)], [named(4.0 * factor)]),
    }


def test_fresh_memory_neither_accuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = asked(tmp_path, capsys, received(1e9), received(7.0))
    assert (answer["conclusion"], answer["suspects"]) == ("clean", [])


def test_nor_excuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = asked(tmp_path, capsys, received(1e9, factor=1.5), received(7.0))
    [suspect] = answer["suspects"]
    assert (suspect["node"], suspect["strength"]) == ("Tensor.__mul__.0.forward", "strong")


def drawn(norm: float) -> dict[str, Record]:
    """A draw with equal arguments, and what is made of it."""
    return {
        "Functional.relu.0.forward": forward([named(6.0)], [named(2.0)]),
        "Functional.dropout.0.forward": forward([named(2.0), number(0.1)], [named(norm)]),
        "Torch.tanh.0.forward": forward([named(norm)], [named(norm * 3)]),
        "Torch.exp.0.forward": forward([named(norm * 3)], [named(norm * 5)]),
    }


def test_other_random_numbers_are_told_and_nobody_behind_is_accused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = asked(tmp_path, capsys, drawn(2.4), drawn(2.1))
    [suspect] = answer["suspects"]
    assert answer["conclusion"] == "undecided"
    assert (suspect["node"], suspect["cause"]) == ("Functional.dropout.0.forward", "random")
    assert suspect["strength"] == "weak"


def cut(start: int, norm: float) -> dict[str, Record]:
    """A slice, whose beginning is an argument."""
    place = [{"type": "slice", "value": [start, start + 4, None]}]
    return {
        "Functional.relu.0.forward": forward([named(6.0)], [named(2.0)]),
        "Tensor.__getitem__.0.forward": forward([named(2.0), place], [named(norm)]),
        "Torch.tanh.0.forward": forward([named(norm)], [named(norm * 3)]),
    }


def test_a_slice_from_another_place_is_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = asked(tmp_path, capsys, cut(1, 1.8), cut(0, 1.5))
    suspect = answer["suspects"][0]
    assert (suspect["node"], suspect["cause"]) == ("Tensor.__getitem__.0.forward", "argument")
    assert "[1, 5, None], [0, 4, None] in bench" in suspect["evidence"]


def test_structure_alone_decides_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = asked(tmp_path, capsys, drawn(2.4), drawn(2.1), task="structure")
    assert (answer["conclusion"], answer["suspects"]) == ("undecided", [])
    assert answer["sentence"].startswith("Cannot tell, because")


def picked(count: int, chosen: Record) -> dict[str, Record]:
    """The best of four are picked; what is made of them has one size, however many they are."""
    best = named(4.0 - 1.0 / count, shape=(12, count))
    total = named(3.0 * count, shape=(12, 1))
    return {
        "Functional.relu.0.forward": forward([named(6.0)], [named(5.0, shape=(12, 4))]),
        "Tensor.topk.0.forward": forward([named(5.0, shape=(12, 4)), chosen], [best]),
        "Tensor.sum.0.forward": forward([best], [total]),
        "Torch.tanh.0.forward": forward([total], [named(2.0 * count, shape=(12, 1))]),
    }


def test_who_was_told_another_size_is_accused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = asked(tmp_path, capsys, picked(1, number(1)), picked(2, number(2)))
    best = answer["suspects"][0]
    assert (best["node"], best["strength"]) == ("Tensor.topk.0.forward", "strong")


def test_who_is_given_another_size_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """How many were picked followed from data: which tensors belong together is not known."""
    answer = asked(tmp_path, capsys, picked(1, number(0.5)), picked(2, number(0.5)))
    assert [one["node"] for one in answer["suspects"] if one["strength"] == "strong"] == []
    [told] = [one for one in answer["suspects"] if one["node"] == "Tensor.sum.0.forward"]
    assert "The size of input.0 is 12, 24 in bench; output.0" in told["evidence"]


def summed(gradient: float) -> tuple[dict[str, Record], dict[str, Any]]:
    """A module whose first call is given back a sum, which no recorded call has put out."""
    module, given, put_out = "Module.layer.Layer", named(2.0), named(3.0)
    behind = named(gradient / 3)
    records = {
        f"{module}.forward.0": forward([given], [named(9.0)]),
        "Torch.sin.0.forward": forward([given], [put_out]),
        "Torch.tanh.0.forward": forward([put_out], [named(9.0)]),
        f"{module}.backward.0": {"input": [named(11.0)], "output": [named(gradient / 2)]},
        "Torch.tanh.0.backward": {"input": [named(11.0)], "output": [named(12.0)]},
        "Torch.sin.0.backward": {"input": [named(gradient)], "output": [behind]},
        "Functional.relu.0.backward": {"input": [behind], "output": [named(gradient / 2)]},
    }
    inside = {name: f"{module}.{name.rpartition('.')[2]}.0" for name in records}
    return records, {**inside, f"{module}.forward.0": None, f"{module}.backward.0": None}


def test_a_gradient_that_no_call_has_put_out_accuses_nobody_strongly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is a sum: in which of its terms the fault began nobody knows."""
    sides = {name: summed(norm) for name, norm in (("npu", 50.0), ("bench", 30.0))}
    paths = {name: write_dump(tmp_path / name, *side) for name, side in sides.items()}
    answer = verdict(tmp_path / "build", capsys, **paths)
    best = answer["suspects"][0]
    assert (best["cause"], best["strength"]) == ("between", "weak")
    assert answer["conclusion"] == "undecided"


def averaged(dimension: int | None, norm: float) -> tuple[dict[str, Record], dict[str, Any]]:
    """A tensor from which its mean is taken, of all elements or along a dimension."""
    given, shape = named(2.0), [12] if dimension is not None else [1]
    mean = {**named(norm), "shape": shape}
    arguments = [given] if dimension is None else [given, {"type": "int", "value": dimension}]
    records = {
        "Torch.mean.0.forward": forward(arguments, [mean]),
        "Torch.sub.0.forward": forward([given, mean], [named(norm)]),
    }
    return records, dict.fromkeys(records)


def test_a_mean_of_another_size_is_told_and_not_what_it_is_given_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = {"npu": averaged(0, 4.0), "bench": averaged(None, 3.0)}
    paths = {name: write_dump(tmp_path / name, *side) for name, side in sides.items()}
    answer = verdict(tmp_path / "build", capsys, **paths)
    assert answer["suspects"][0]["node"] == "Torch.mean.0.forward"


def test_calls_of_one_side_alone_are_told_beside_a_clean_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = {
        f"Torch.{name}.0.forward": forward([named(2.0 + at)], [named(3.0 + at)])
        for at, name in enumerate(("sin", "cos", "tanh", "exp"))
    }
    npu = {**bench, "Torch.count_nonzero.0.forward": forward([named(3.0)], [named(1.0)])}
    paths = {
        name: write_dump(tmp_path / name, records, dict.fromkeys(records))
        for name, records in (("npu", npu), ("bench", bench))
    }
    answer = verdict(tmp_path / "build", capsys, **paths)
    assert answer["conclusion"] == "clean"
    assert "1 call of npu and 0 of bench have no counterpart" in str(answer)
