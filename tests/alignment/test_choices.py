"""One call of two that are alike but for one trait: the one that agrees in it is the partner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder.dump.source import InMemoryDump
from tests.alignment.respell import Change, recording, without_calls, without_statistics
from tests.alignment.score import partners
from tests.builder.small_dumps import write_dump
from tests.recorded.judge import written

LARGE = {"Norm": 7.0, "Max": 3.0, "Min": -2.0, "Mean": 0.2}
OTHER = {"Norm": 11.0, "Max": 4.0, "Min": -3.5, "Mean": 0.3}
NEAR = {"Norm": 7.004, "Max": 3.001, "Min": -2.001, "Mean": 0.2}
TENSORS: dict[str, Mapping[str, Any]] = {
    "words": {"Norm": 5.0, "Max": 0.9, "Min": -0.8, "shape": [4, 16]},
    "given": {**LARGE, "shape": [4, 8]},
    "given near": {**NEAR, "shape": [4, 8]},
    "given otherwise": {**OTHER, "shape": [4, 8]},
    "given longer": {**LARGE, "shape": [4, 24]},
    "given flat": {**LARGE, "shape": [32]},
    "made": {"Norm": 6.0, "Max": 2.0, "Min": -1.5, "shape": [4, 8]},
    "made otherwise": {"Norm": 9.0, "Max": 2.5, "Min": -1.9, "shape": [4, 8]},
    "made longer": {"Norm": 6.0, "Max": 2.0, "Min": -1.5, "shape": [4, 24]},
    "bias": {"Norm": 1.5, "Max": 0.5, "Min": -0.4, "shape": [8]},
    "end": {"Norm": 3.0, "Max": 0.3, "Min": 0.1, "shape": [4, 16]},
}
USUAL: dict[str, Any] = {
    "in": ["given", 2.0],
    "out": ["made"],
    "at": ["File a.py, line 3, in f, \n x * 2"],
}
# What another call differs in.
TRAITS: dict[str, dict[str, Any]] = {
    "the values that it is given": {"in": ["given otherwise", 2.0]},
    "the size that it is given": {"in": ["given longer", 2.0]},
    "the shape that it is given": {"in": ["given flat", 2.0]},
    "the values that it puts out": {"out": ["made otherwise"]},
    "the size that it puts out": {"out": ["made longer"]},
    "a number that it is given": {"in": ["given", 3.0]},
    "the number of tensors": {"in": ["given", "bias"]},
    "the line that calls it": {"at": ["File a.py, line 9, in f, \n y * 2"]},
}


def dump(folder: Path, number: int, middle: Mapping[str, Any]) -> Path:
    """Calls between two others that find one another."""
    calls = {
        f"Functional.embedding.{number}.forward": [[3], ["words"]],
        **middle,
        f"Functional.softmax.{number}.forward": [["words"], ["end"]],
    }
    return written(folder, calls, TENSORS)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("trait", TRAITS)
def test_a_trait_tells(tmp_path: Path, trait: str, place: int) -> None:
    both = [USUAL, USUAL | TRAITS[trait]]
    candidates = {f"Torch.mul.{i}.forward": both[i != place] for i in range(2)}
    bench = dump(tmp_path / "bench", 0, candidates)
    for i, one in enumerate(both):
        npu = dump(tmp_path / f"npu{i}", 5, {"Torch.mul.7.forward": one})
        right = f"Torch.mul.{place if one is USUAL else 1 - place}.forward"
        assert partners(npu, bench)["Torch.mul.7.forward"] == right
        assert partners(bench, npu)[right] == "Torch.mul.7.forward"


PART: dict[str, Any] = {
    "name": ("{}", "Part"),
    "given": "given",
    "made": "made",
    "weight": "square",
    "inside": "Functional.linear",
}
WEIGHTS = {
    "square": {"Norm": 2.0, "Max": 0.7, "Min": -0.6, "shape": [8, 8]},
    "square otherwise": {"Norm": 2.6, "Max": 0.9, "Min": -0.7, "shape": [8, 8]},
    "wide": {"Norm": 2.0, "Max": 0.7, "Min": -0.6, "shape": [24, 8]},
}
# What another module differs in; names are of an attribute and of a class.
OF_MODULES: dict[str, dict[str, Any]] = {
    "the values of its weights": {"weight": "square otherwise"},
    "the size of its weights": {"weight": "wide"},
    "whether it has weights": {"weight": None},
    "the values that it is given": {"given": "given otherwise"},
    "the size that it is given": {"given": "given longer"},
    "the values that it puts out": {"made": "made otherwise"},
    "the size that it puts out": {"made": "made longer"},
    "what it calls": {"inside": "Functional.gelu"},
    "what its class does": {"name": ("{}", "LayerNorm"), "usual": ("{}", "Linear")},
    "the words of its attribute": {"name": ("gate_{}", "Part"), "usual": ("query_{}", "Part")},
    "the words of its class": {"name": ("{}", "SwishGate"), "usual": ("{}", "QueryHeads")},
}


def of_modules(folder: Path, root: str, number: int, parts: Mapping[str, Any]) -> Path:
    """The same of modules, which make a call each."""
    tensors = {
        name: {"type": "torch.Tensor", "dtype": "torch.float32", **values}
        for name, values in {**TENSORS, **WEIGHTS}.items()
    }

    def record(given: str, *made: str) -> dict[str, Any]:
        return {
            "input_args": [tensors[given]],
            "input_kwargs": {},
            "output": [tensors[one] for one in made],
        }

    above = f"Module.{root}.Net.forward.0"
    data: dict[str, Any] = {f"Functional.embedding.{number}.forward": record("end", "words")}
    parents: dict[str, str | None] = dict.fromkeys(data, above)
    for place, (name, part) in enumerate(parts.items()):
        call = f"{part['inside']}.{number + place}.forward"
        data[call] = record(part["given"], part["made"])
        data[name] = record(part["given"], part["made"])
        data[name]["parameters"] = {"weight": tensors[part["weight"]]} if part["weight"] else {}
        parents |= {call: name, name: above}
    data[f"Functional.softmax.{number}.forward"] = record("words", "end")
    data[above] = record("end", "end")
    parents |= {f"Functional.softmax.{number}.forward": above, above: None}
    return write_dump(folder, data, parents)


DUMPS: dict[str, Change] = {
    "all": lambda dump: dump,
    "modules alone": without_calls,
    "structure": without_statistics,
}


def is_told(trait: str, kind: str) -> bool:
    """Whether such a dump has anything of the trait."""
    return not (
        (trait.startswith("the values") and kind == "structure")
        or (trait == "what it calls" and kind == "modules alone")
    )


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    ("trait", "kind"),
    # Without statistics weights of another size may be those of a larger model.
    [
        (trait, kind)
        for trait in OF_MODULES
        for kind in DUMPS
        if (trait, kind) != ("the size of its weights", "structure")
    ],
)
def test_a_trait_of_a_module_tells(tmp_path: Path, trait: str, place: int, kind: str) -> None:
    """Where a dump has nothing of it both stay alone."""
    other = {**PART, **OF_MODULES[trait]}
    usual = {**PART, "name": other.get("usual", PART["name"])}

    def stem(root: str, part: Mapping[str, Any], word: str) -> str:
        attribute, class_name = part["name"]
        return f"Module.{root}.{attribute.format(word)}.{class_name}.forward.0"

    def source(name: str, root: str, number: int, parts: Mapping[str, Any]) -> InMemoryDump:
        dump = recording(of_modules(tmp_path / name, root, number, parts))
        return DUMPS[kind](dump).source()

    both = [usual, other]
    names = [stem("net", both[i != place], ("here", "there")[i]) for i in range(2)]
    bench = source("bench", "net", 0, {name: both[i != place] for i, name in enumerate(names)})
    for i, one in enumerate(both):
        mine = stem("model", one, "own")
        npu = source(f"npu{i}", "model", 5, {mine: one})
        right = names[place if one is usual else 1 - place] if is_told(trait, kind) else None
        assert partners(npu, bench).get(mine) == right
        back = {partner: name for name, partner in partners(bench, npu).items()}
        assert back.get(mine) == right
