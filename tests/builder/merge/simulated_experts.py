"""Experts in the simulated training: their tokens come from other ranks, too."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tests.builder.merge.simulated_training import HIDDEN, LENGTH, Array, Model, Training


@dataclass(frozen=True)
class ExpertShare:
    """The experts a rank has, and everyone whose tokens come to them."""

    held: range
    group: tuple[Training, ...]
    ep: int

    @staticmethod
    def of(ep: int, number: int, trainings: Sequence[Training], model: Model) -> ExpertShare:
        """Ranks along cp and dp share experts out in groups of ``ep`` that stand together."""
        share, count = number % ep, model.experts // ep
        group = tuple(trainings[number - share : number - share + ep])
        return ExpertShare(range(share * count, (share + 1) * count), group, ep)


def tokens_of_ranks(model: Model, cp: int, dp: int, seed: int) -> list[Training]:
    """The training as each rank along cp and dp sees it; a sequence is cut in 2 · cp pieces."""
    result = []
    pieces = np.split(np.arange(LENGTH), 2 * cp)
    for data in range(dp):
        training = Training(model, seed, data)
        for context in range(cp):
            rows = np.concatenate([pieces[context], pieces[2 * cp - 1 - context]])
            result.append(training.part(rows) if cp > 1 else training)
    return result


class Recorder(Protocol):
    """What is needed of a simulated rank."""

    training: Training
    gradients: dict[str, Array]

    def api(self, stem: str, inputs: Sequence[Any], output: Array) -> None: ...

    def layer_stem(self, part: str, inner: str) -> str: ...

    def module(
        self, stem: str, direction: str, call: int, x: Array, y: Array, weight: Array | None = None
    ) -> AbstractContextManager[None]: ...


def record_experts(
    rank: Recorder, share: ExpertShare, part: str, m: int, *, backward: bool = False
) -> None:
    """The layer of experts, as this rank runs it; an expert without tokens is not called."""
    own = rank.training
    norm = own.weight[f"norm{part}"]
    direction = "backward" if backward else "forward"

    def entering(training: Training) -> Array:
        return training.g[part, m] if backward else training.x[part, m] * norm

    x = entering(own)
    y = own.routed(part, x, transposed=backward)
    tokens, results = [], []
    for expert in share.held:
        sent = [entering(one)[one.route[int(part)] == expert] for one in share.group]
        weight = own.weight[f"expert{part}.{expert}"]
        tokens.append(np.concatenate(sent))
        results.append(tokens[-1] @ (weight if backward else weight.T))
    with rank.module(rank.layer_stem(part, "mlp.MoELayer"), direction, m, x, y):
        if not backward:
            stem, router = rank.layer_stem(part, "mlp.router.Router"), own.weight[f"router{part}"]
            with rank.module(stem, direction, m, x, x @ router.T, router):
                pass
        _send(rank, share, x)
        came = [np.concatenate(all_of) for all_of in (tokens, results)]
        if not len(came[0]):  # nothing to do here
            return
        with rank.module(rank.layer_stem(part, "mlp.experts.Experts"), direction, m, *came):
            order = list(enumerate(share.held))
            for local, expert in reversed(order) if backward else order:
                if not len(tokens[local]):
                    continue
                stem = rank.layer_stem(part, f"mlp.experts.local_experts.{local}.Expert")
                weight = own.weight[f"expert{part}.{expert}"]
                with rank.module(stem, direction, m, tokens[local], results[local], weight):
                    factor = weight if backward else weight.T
                    rank.api("Torch.matmul", [tokens[local], factor], results[local])
        _send(rank, share, x)


def _send(rank: Recorder, share: ExpertShare, rows: Array) -> None:
    if share.ep > 1:
        rank.api("Distributed.all_to_all_single", [rows * 0, rows], np.ones((3, HIDDEN)))
