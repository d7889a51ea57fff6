"""Checkpoints of one model are the same model, however they are written and split."""

from __future__ import annotations

import io
import json
import math
import pickle
import zipfile
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.command.main import main
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import speaking, tell
from msprobe_checks.checkpoint.compare import compare
from msprobe_checks.checkpoint.locate import read_checkpoint
from msprobe_checks.checkpoint.report import summary_lines
from tests.checks.checkpoint.models import (
    FFN,
    HEAD,
    HIDDEN,
    LAYERS,
    VOCABULARY,
    llama,
    save_hugging_face,
    save_megatron,
)

SPLITS = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (2, 2, 2), (1, 4, 1)]


def lines_of(first: Path, second: Path) -> list[str]:
    return summary_lines(compare(read_checkpoint(first), read_checkpoint(second)))


@pytest.mark.parametrize("split", SPLITS)
def test_a_split_is_the_model_it_was_split_from(
    tmp_path: Path, split: tuple[int, int, int]
) -> None:
    model = llama()
    whole = save_megatron(model, tmp_path / "whole")
    comparison = compare(
        read_checkpoint(save_megatron(model, tmp_path / "split", *split)), read_checkpoint(whole)
    )
    assert len(comparison.parameters) == 3 + 6 * LAYERS
    assert {one.l2 for one in comparison.parameters} == {0.0}
    assert all(one.cosine == pytest.approx(1, abs=1e-12) for one in comparison.parameters)


@pytest.mark.parametrize("split", SPLITS)
def test_megatrons_names_are_hugging_faces(tmp_path: Path, split: tuple[int, int, int]) -> None:
    model = llama()
    other = read_checkpoint(save_hugging_face(model, tmp_path / "hf"))
    comparison = compare(read_checkpoint(save_megatron(model, tmp_path / "m", *split)), other)
    assert len(comparison.parameters) == len(model)
    assert {one.l2 for one in comparison.parameters} == {0.0}


def test_exchanged_gates_of_a_conversion_are_named(tmp_path: Path) -> None:
    model = llama()
    wrong = dict(model)
    gate, up = (f"model.layers.2.mlp.{one}_proj.weight" for one in ("gate", "up"))
    wrong[gate], wrong[up] = model[up], model[gate]
    converted = save_megatron(wrong, tmp_path / "converted", tp=2)
    lines = lines_of(converted, save_megatron(model, tmp_path / "right"))
    assert any(
        "1 of 27 common parameters" in line
        and "layers.2.mlp.linear_fc1.weight" in line
        and "halves are exchanged" in line
        for line in lines
    )
    lines = lines_of(converted, save_hugging_face(model, tmp_path / "hf"))
    assert any(
        "layers.2.mlp.gate_proj.weight: it holds the second's layers.2.mlp.up_proj" in line
        for line in lines
    )
    assert any("2 of 39 common parameters differ" in line for line in lines)


def test_a_layer_that_was_converted_twice_is_named(tmp_path: Path) -> None:
    model = llama()
    for name in [one for one in model if ".norm" in one or "layernorm" in one]:
        model[name] = 1 + model[name] / 1000  # all are near each other
    wrong = dict(model)
    for name in [one for one in model if ".layers.2." in one]:
        wrong[name] = model[name.replace(".2.", ".1.")]
    wrong["model.norm.weight"] = model["model.norm.weight"] + 1e-3
    whole = save_hugging_face(model, tmp_path / "whole")
    comparison = compare(
        read_checkpoint(save_megatron(wrong, tmp_path / "m", 2, 2)), read_checkpoint(whole)
    )
    causes = {one.name: one.cause for one in comparison.parameters if not one.is_rounding}
    assert causes.pop("norm.weight") is None
    assert causes == {
        name: fact("checkpoint.exchanged", name=name.replace(".2.", ".1."))
        for name in (one.removeprefix("model.") for one in model)
        if ".layers.2." in f".{name}"
    }


def test_a_head_that_is_the_padded_embedding_is_named(tmp_path: Path) -> None:
    model = llama()
    tied = {**model, "lm_head.weight": model["model.embed_tokens.weight"]}
    first = save_megatron(tied, tmp_path / "m", 2, 1, 1, VOCABULARY + 2)
    [line] = [
        one
        for one in lines_of(first, save_hugging_face(model, tmp_path / "hf"))
        if one.startswith("Verdict")
    ]
    assert line.endswith("first lm_head.weight: it holds the second's embed_tokens.weight.")


def test_one_ranks_part_of_another_model_is_told_from_the_rest(tmp_path: Path) -> None:
    model, other = llama(), llama(1)
    whole = save_hugging_face(model, tmp_path / "hf")
    first, stale = (
        save_megatron(one, tmp_path / name, 2) for one, name in ((model, "m"), (other, "n"))
    )
    place = "iter_0000005/mp_rank_01/model_optim_rng.pt"
    (stale / place).replace(first / place)
    lines = "\n".join(lines_of(first, whole))
    assert (
        f"embed_tokens.weight: rows {VOCABULARY // 2} to {VOCABULARY - 1} of {VOCABULARY}" in lines
    )
    comparison = compare(read_checkpoint(first), read_checkpoint(whole))
    causes = {one.name: one.cause for one in comparison.parameters}
    part = fact("checkpoint.columns", first=FFN // 2, last=FFN - 1, count=FFN)
    assert causes["layers.3.mlp.down_proj.weight"] == part
    drifted = {name: one + torch.randn(one.shape) / 10 for name, one in model.items()}
    comparison = compare(
        read_checkpoint(save_hugging_face(drifted, tmp_path / "d")), read_checkpoint(whole)
    )
    assert {one.cause for one in comparison.parameters} == {None}


def test_padding_of_the_vocabulary_is_no_difference(tmp_path: Path) -> None:
    model = llama()
    padded = save_megatron(model, tmp_path / "padded", tp=2, padded=VOCABULARY + 6)
    lines = lines_of(padded, save_megatron(model, tmp_path / "plain"))
    elements = sum(one.numel() for one in llama().values())
    assert lines[-1] == (
        f"Verdict   all {3 + 6 * LAYERS} common parameters agree up to rounding"
        f" ({elements:,} elements), but padding of the vocabulary is left out of 2."
    )


def test_a_drifted_replica_is_reported(tmp_path: Path) -> None:
    drifted = save_megatron(llama(), tmp_path / "drifted", tp=2)
    path = drifted / "iter_0000005" / "mp_rank_01" / "model_optim_rng.pt"
    with torch.serialization.safe_globals([]):
        content = torch.load(path, weights_only=False)
    content["model"]["decoder.final_layernorm.weight"][3] += 0.5
    torch.save(content, path)
    differs = fact("checkpoint.unlike", name="decoder.final_layernorm.weight")
    assert read_checkpoint(drifted).notes == (differs,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x.T.contiguous(), "transposed"),
        (lambda x: -x, "sign"),
        (lambda x: x.flip(0), "another order (6 of 6 are moved)"),
        (lambda x: x[[0, 4, 2, 3, 1, 5]], "another order (2 of 6 are moved)"),
        (lambda x: 1.05 * x, "1.05 times"),
        (lambda x: x.roll(len(x) // 2, 0), "halves"),
        (lambda x: x + torch.full_like(x, math.nan), "NaN"),
        # Norms of rows that change places, because all have moved a little, are no order.
        (lambda x: x + 0.008 * x.flip(0), "of ‖b‖"),
    ],
)
def test_what_a_conversion_did_is_said(tmp_path: Path, change: object, words: str) -> None:
    model = {"a.weight": torch.randn(6, 8), "b.weight": torch.randn(5)}
    torch.save(model, tmp_path / "right.pt")
    torch.save({**model, "a.weight": change(model["a.weight"])}, tmp_path / "wrong.pt")  # type: ignore[operator]
    lines = lines_of(tmp_path / "wrong.pt", tmp_path / "right.pt")
    assert "1 of 2 common parameters" in lines[-1]
    assert words in lines[-1]


def test_numbers_are_those_of_their_definitions(tmp_path: Path) -> None:
    a, b = torch.randn(7, 5, dtype=torch.float64), torch.randn(7, 5, dtype=torch.float64)
    torch.save({"w": a, "z": torch.zeros(3)}, tmp_path / "a.pt")
    torch.save({"w": b, "z": torch.zeros(3)}, tmp_path / "b.pt")
    assert (
        main(["checkpoint", f"{tmp_path}/a.pt", f"{tmp_path}/b.pt", "-o", f"{tmp_path}/r.json"])
        == 0
    )
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["w"]["l2"] == pytest.approx(float(torch.linalg.vector_norm(a - b)), rel=1e-12)
    cosine = torch.nn.functional.cosine_similarity(a.flatten(), b.flatten(), dim=0)
    assert result["w"]["cos"] == pytest.approx(float(cosine), rel=1e-12)
    assert result["w"]["numel"] == 35
    assert result["w"]["shape"] == [7, 5]
    expected = ((a - b).abs() / torch.maximum(a.abs(), b.abs())).max()
    assert result["w"]["max_relative_difference"] == pytest.approx(float(expected), rel=1e-12)
    assert (result["z"]["l2"], result["z"]["cos"]) == (0, 1)


def test_writing_in_half_precision_is_rounding_and_a_thousandth_is_not(tmp_path: Path) -> None:
    model = {f"layers.{n}.weight": torch.randn(HIDDEN, FFN) for n in range(3)}
    torch.save(model, tmp_path / "fp32.pt")
    torch.save({name: one.bfloat16() for name, one in model.items()}, tmp_path / "bf16.pt")
    assert "all 3 common" in lines_of(tmp_path / "bf16.pt", tmp_path / "fp32.pt")[-1]
    steps = {name: one * (1 + 2**-20) for name, one in model.items()}  # eight steps of float32
    torch.save(steps, tmp_path / "steps.pt")
    assert "3 of 3 common" in lines_of(tmp_path / "steps.pt", tmp_path / "fp32.pt")[1]
    torch.save({name: one * 1.001 for name, one in model.items()}, tmp_path / "off.pt")
    assert "3 of 3 common" in lines_of(tmp_path / "off.pt", tmp_path / "fp32.pt")[1]


def test_distributed_checkpoints_are_read_without_a_process_group(tmp_path: Path) -> None:
    from torch.distributed.checkpoint.state_dict_saver import save

    model = llama()
    state = {"model": model, "optim": {"state": {"step": torch.tensor(3)}}}
    save(state, checkpoint_id=str(tmp_path / "dcp"), no_dist=True)
    torch.save({"state_dict": model}, tmp_path / "plain.pt")
    comparison = compare(read_checkpoint(tmp_path / "dcp"), read_checkpoint(tmp_path / "plain.pt"))
    assert [one.l2 for one in comparison.parameters] == [0.0] * len(model)


def test_names_of_one_side_are_told(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2), "b": torch.ones(2)}, tmp_path / "a.pt")
    torch.save({"a": torch.ones(2), "c": torch.ones(3)}, tmp_path / "b.pt")
    assert (
        main(["checkpoint", f"{tmp_path}/a.pt", f"{tmp_path}/b.pt", "-o", f"{tmp_path}/r.json"])
        == 0
    )
    result = json.loads((tmp_path / "r.json").read_text())
    assert {name: one.get("only_in") for name, one in result.items()} == {
        "a": None,
        "b": "first",
        "c": "second",
    }


class Trap:
    """Pickles as a call that makes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return exec, (f"open({str(self.target)!r}, 'w')",)


@pytest.mark.parametrize("place", ["args", "model"])
def test_nothing_in_a_file_runs(tmp_path: Path, place: str) -> None:
    trap = tmp_path / "sprung"
    content = {"args": 1, "model": {"w": torch.ones(2)}}
    content[place] = {"w": torch.ones(2), "x": Trap(trap)}
    torch.save(content, tmp_path / "hostile.pt")
    assert list(read_checkpoint(tmp_path / "hostile.pt").parameters) == ["w"]
    assert not trap.exists()


def test_an_archive_that_was_packed_again_has_the_same_weights(tmp_path: Path) -> None:
    """torch would map the compressed bytes and take them for weights."""
    torch.save({"w": torch.zeros(1000)}, tmp_path / "a.pt")
    with (
        zipfile.ZipFile(tmp_path / "a.pt") as whole,
        zipfile.ZipFile(tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for entry in whole.infolist():
            packed.writestr(entry.filename, whole.read(entry))
    found = read_checkpoint(tmp_path / "b.pt").parameters["w"].load()
    assert found.tolist() == [0.0] * 1000


def test_hostile_metadata_is_refused(tmp_path: Path) -> None:
    trap = tmp_path / "sprung"
    (tmp_path / "dcp").mkdir()
    (tmp_path / "dcp" / ".metadata").write_bytes(pickle.dumps(Trap(trap)))
    with pytest.raises(BuildError, match="cannot be read: it is damaged, or holds more"):
        read_checkpoint(tmp_path / "dcp")
    assert not trap.exists()


def test_an_index_cannot_lead_out_of_its_directory(tmp_path: Path) -> None:
    directory = save_hugging_face(llama(), tmp_path / "hf")
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../elsewhere.safetensors"}}))
    with pytest.raises(BuildError, match="lies outside of it"):
        read_checkpoint(directory)
    index.write_text("[" * 100_000)
    with pytest.raises(BuildError, match="is damaged: it has no weight_map"):
        read_checkpoint(directory)


def test_every_cut_of_a_file_is_one_sentence(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({"w": torch.randn(HEAD)}, buffer)
    whole = buffer.getvalue()
    for length in range(0, len(whole) - 1, 97):
        (tmp_path / "cut.pt").write_bytes(whole[:length])
        with pytest.raises(BuildError, match=r"cut\.pt"):
            read_checkpoint(tmp_path / "cut.pt")


def test_shards_that_do_not_fit_are_named(tmp_path: Path) -> None:
    """What ranks hold of one weight makes no whole: said with both shapes, never joined."""
    directory = save_megatron(llama(), tmp_path / "m", tp=2)
    path = directory / "iter_0000005" / "mp_rank_01" / "model_optim_rng.pt"
    content = torch.load(path, weights_only=False)
    [name] = [one for one in content["model"] if one.endswith("layers.1.mlp.linear_fc2.weight")]
    own = content["model"][name]
    content["model"][name] = own[:-1].clone()
    torch.save(content, path)
    shapes = f"[{list(own.shape)}, [{len(own) - 1}, {own.shape[1]}]]"
    assert tell(read_checkpoint(directory).notes) == (
        f"{name}: the tensor-parallel ranks hold parts of shapes {shapes}; the first is compared."
    )


def test_experts_of_all_ranks_are_numbered_through(tmp_path: Path) -> None:
    stem = "decoder.layers.0.mlp.experts.local_experts"
    experts = [{"linear_fc1": torch.randn(6, 4), "linear_fc2": torch.randn(4, 3)} for _ in range(4)]

    def save(name: str, ranks: int) -> Path:
        local = len(experts) // ranks
        for rank in range(ranks):
            folder = tmp_path / name / f"mp_rank_00_{rank:03d}"
            folder.mkdir(parents=True)
            model = {
                f"{stem}.{place}.{part}.weight": weight.clone()
                for place in range(local)
                for part, weight in experts[rank * local + place].items()
            }
            args = Namespace(pipeline_model_parallel_size=1, expert_model_parallel_size=ranks)
            torch.save({"args": args, "model": model}, folder / "model_optim_rng.pt")
        return tmp_path / name

    spread, whole = (read_checkpoint(save(name, ranks)) for name, ranks in (("b", 2), ("a", 1)))
    assert spread.kind == "Megatron, tp 1 · pp 1 · ep 2"
    found = {one.name: one.l2 for one in compare(spread, whole).parameters}
    assert found == {
        f"{stem}.{number}.{part}.weight": 0.0
        for number in range(len(experts))
        for part in ("linear_fc1", "linear_fc2")
    }


def test_missing_ranks_are_named(tmp_path: Path) -> None:
    directory = save_megatron(llama(), tmp_path / "m", tp=2)
    (directory / "iter_0000005" / "mp_rank_01" / "model_optim_rng.pt").unlink()
    with pytest.raises(BuildError, match=r"mp_rank_01 holds neither"):
        read_checkpoint(directory)
    (directory / "iter_0000005" / "mp_rank_01").rmdir()
    with pytest.raises(BuildError, match=r"holds 1 of 2 tensor-parallel ranks"):
        read_checkpoint(directory)


def test_what_is_no_checkpoint_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_checkpoint(tmp_path / "none")
    with pytest.raises(UsageError, match="holds no known checkpoint"):
        read_checkpoint(tmp_path)
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(UsageError, match=r"a\.txt is no checkpoint"):
        read_checkpoint(tmp_path / "a.txt")


def test_an_existing_output_is_kept(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "a.pt")
    (tmp_path / "r.json").write_text("mine")
    assert (
        main(["checkpoint", f"{tmp_path}/a.pt", f"{tmp_path}/a.pt", "-o", f"{tmp_path}/r.json"])
        == 2
    )
    assert (tmp_path / "r.json").read_text() == "mine"


def test_what_one_checkpoint_lacks_is_part_of_the_verdict(tmp_path: Path) -> None:
    for name, more in (("whole", {"b": torch.ones(2), "n" * 3000: torch.ones(2)}), ("part", {})):
        torch.save({"a": torch.ones(3), **more}, tmp_path / f"{name}.pt")
    lines = lines_of(tmp_path / "part.pt", tmp_path / "whole.pt")
    assert lines[-1] == (
        "Verdict   all 1 common parameters agree up to rounding (3 elements),"
        " but 2 are in one checkpoint only."
    )
    assert max(map(len, lines)) < 300
    with speaking("zh"):
        lines = lines_of(tmp_path / "part.pt", tmp_path / "whole.pt")
    assert lines[0] == "已比较    torch.save 与 torch.save"
    assert lines[-1] == (
        "结论      全部 1 个共同参数在舍入范围内一致（3 个元素），但有 2 个只在一份检查点中。"
    )
