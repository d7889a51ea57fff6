"""Real data of context-parallel ranks: parts of a sequence, masks of their own, equal weights."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder import BuildConfig, build
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.builder.small_dumps import forward, tensor, write_dump

Array = NDArray[Any]
TOKENS, HIDDEN = 8, 4
WORDS = np.arange(TOKENS)[None] + 3
STATES = np.random.default_rng(0).normal(size=(TOKENS, 1, HIDDEN)).astype(np.float32)
WEIGHT = np.random.default_rng(1).normal(size=(HIDDEN, HIDDEN)).astype(np.float32)


def write_rank(directory: Path, places: list[int], weight: Array, mask: Array) -> None:
    """One rank that has the tokens at ``places``, and a mask made for them."""
    files = directory / "dump_tensor_data"
    files.mkdir(parents=True)

    def save(name: str, values: Array) -> dict[str, Any]:
        np.save(files / f"{name}.npy", values)
        kinds = {"i": "torch.int64", "f": "torch.float32", "b": "torch.bool"}
        own = values.astype(np.float64)
        record = tensor(
            float(np.linalg.norm(own)),
            high=float(own.max()),
            low=float(own.min()),
            mean=float(own.mean()),
            shape=values.shape,
            dtype=kinds[values.dtype.kind],
        )
        return {**record, "data_name": f"{name}.npy"}

    words, states = WORDS[:, places], STATES[places]
    model = forward([save("words", words)], [save("states", states)])
    model["parameters"] = {"weight": save("weight", weight)}
    data = {
        "Module.model.Model.forward.0": model,
        "Tensor.__gt__.0.forward": forward([], [save("mask", mask)]),
    }
    construct = {"Module.model.Model.forward.0": None}
    construct["Tensor.__gt__.0.forward"] = "Module.model.Model.forward.0"  # type: ignore[assignment]
    write_dump(directory, data, construct, task="tensor")


def test_tokens_are_put_in_order_and_only_weights_must_be_alike(tmp_path: Path) -> None:
    masks = np.eye(2, TOKENS, dtype=bool), np.eye(2, TOKENS, 2, dtype=bool)
    write_rank(tmp_path / "npu" / "rank0", [0, 1, 6, 7], WEIGHT, masks[0])
    write_rank(tmp_path / "npu" / "rank1", [2, 3, 4, 5], WEIGHT[:, ::-1], masks[1])
    write_rank(tmp_path / "one" / "rank0", [*range(TOKENS)], WEIGHT, np.vstack(masks))
    config = BuildConfig(
        tmp_path / "npu",
        tmp_path / "one",
        npu_layout=parse_layout({"rank_size": 2, "tp": 1, "pp": 1, "cp": 2}, "npu"),
        bench_layout=parse_layout({"rank_size": 1, "tp": 1, "pp": 1}, "bench"),
    )
    result = build(config, tmp_path / "out", workers=1)
    drifted = [one for one in result.diagnostics if one.code == "replicas_disagree"]
    assert [(one.subject, one.count) for one in drifted] == [("weight.npy", 1)]
    with closing(sqlite3.connect(result.path)) as connection:
        rows = connection.execute(
            "SELECT name, max_abs_err, note FROM tensor_view WHERE side = 'npu'"
            " AND matched IS NOT NULL AND node LIKE 'Module%' ORDER BY name"
        ).fetchall()
    errors = {name: error for name, error, _ in rows}
    assert errors == {"input.0": 0, "output.0": 0, "parameters.weight": 0}
