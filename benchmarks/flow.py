"""How often the maker of a tensor is inferred right, and what it costs to record it.

    python benchmarks/flow.py

Each model of the tests is trained for a step with ``"flow": true``. Of each tensor that a call is
given the call that made it is inferred from equal statistics, as for dumps without ``flow.bin``,
and compared with the recorded one.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from msprobe_builder.base.codes import Section  # noqa: E402
from msprobe_builder.base.texts import Texts  # noqa: E402
from msprobe_builder.dump.names import Direction  # noqa: E402
from msprobe_builder.graph.producers import producers  # noqa: E402
from msprobe_builder.pipeline.compare import read_rank  # noqa: E402
from msprobe_collector import PrecisionDebugger  # noqa: E402
from tests.collector.models import MODELS as FIRST_MODELS  # noqa: E402
from tests.collector.more_models import MORE_MODELS  # noqa: E402
from tests.collector.truth.trainings import TRAININGS  # noqa: E402

MODELS = {**FIRST_MODELS, **MORE_MODELS}


def recorded(model: str, training: str, path: Path) -> list[Path]:
    """The dumps of each step."""
    torch.manual_seed(11)
    build, data_of = MODELS[model]
    net, data = build(), data_of()
    config = {"task": "statistics", "level": "mix", "dump_path": str(path / "dump")}
    (path / "config.json").write_text(json.dumps({**config, "statistics": {"flow": True}}))
    debugger = PrecisionDebugger(config_path=path / "config.json")

    @contextmanager
    def window() -> Iterator[None]:
        debugger.start(net)
        yield
        debugger.stop()
        debugger.step()

    TRAININGS[training](net, data, window)
    debugger.close()
    return [step / "rank" for step in sorted((path / "dump").iterdir())]


def counted(dump: Path, direction: Direction) -> Counter[str]:
    """How the inferred makers of what API calls are given agree with the recorded ones."""
    side, _ = read_rank(dump, Texts())
    tree, table, calls = side.tree, side.table, side.tree.calls
    assert table.origins is not None
    truth = producers(tree, calls, table)
    inferred = producers(tree, calls, replace(table, origins=None))
    by_call = table.is_tensor & (table.section == Section.INPUT) & calls.is_api[table.node]
    by_call &= (calls.direction == direction)[table.node] & table.origins.settled
    made = is_made(tree, table)
    found: Counter[str] = Counter()
    for row in np.flatnonzero(by_call).tolist():
        there, here = root(truth, row, made), root(inferred, row, made)
        if there == here:
            found["none, rightly" if there < 0 else "right"] += 1
        elif here < 0:
            found["missing"] += 1
        else:
            found["wrong" if there >= 0 else "wrong, as no one call made it"] += 1
    return found


def is_made(tree: Any, table: Any) -> NDArray[np.bool_]:
    """Rows that a call puts out, of which nobody asks further."""
    return np.asarray((table.section == Section.OUTPUT) & tree.calls.is_api[table.node])


def root(producer: NDArray[Any], row: int, made: NDArray[np.bool_]) -> int:
    """The call that made a row, behind the modules that handed it on; -1 if none did."""
    seen = set()
    row = int(producer[row])
    while row >= 0 and not made[row]:
        if row in seen:
            return -1
        seen.add(row)
        row = int(producer[row])
    return row


def main() -> None:
    logging.disable(logging.CRITICAL)
    kinds = ("right", "none, rightly", "missing", "wrong", "wrong, as no one call made it")
    print(f"| training | direction | {' | '.join(kinds)} |")
    print("|---|---|" + "--:|" * len(kinds))
    for training in TRAININGS:
        totals = {one: Counter[str]() for one in (Direction.FORWARD, Direction.BACKWARD)}
        for model in MODELS:
            if (model, training) == ("mixtral", "mixed precision"):
                continue
            with tempfile.TemporaryDirectory() as folder:
                try:
                    dumps = recorded(model, training, Path(folder))
                except RuntimeError as error:  # no such types on this processor
                    print(f"{model}, {training}: {error}", file=sys.stderr)
                    continue
                for direction, total in totals.items():
                    for dump in dumps:
                        total += counted(dump, direction)
        for direction, total in totals.items():
            cells = " | ".join(f"{total[kind]:,}" for kind in kinds)
            print(f"| {training} | {direction.name.lower()} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
