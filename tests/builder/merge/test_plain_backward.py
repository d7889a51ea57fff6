"""What belongs to the backward pass, told by names and order alone, on drawn dumps."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from hypothesis import given, settings

from msprobe_builder.base.texts import Texts
from msprobe_builder.merge.flow.knowledge import Knowledge
from msprobe_builder.pipeline.compare import read_rank
from tests.builder.small_dumps import Record, forward, tensor, write_dump
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

NET = "Module.net.Net"


def some_step(random: Random) -> dict[str, str | None]:
    """Calls in front of a module, inside of it, behind it and in its backward pass, by host."""
    found: dict[str, str | None] = {}

    def calls(host: str | None, *, backward: bool = False) -> None:
        for _ in range(random.randint(0, 2)):
            direction = "backward" if backward and random.random() < 0.5 else "forward"
            found[f"Torch.mul.{len(found)}.{direction}"] = host

    calls(None)
    found[f"{NET}.forward.0"] = None
    calls(f"{NET}.forward.0")
    calls(None)
    if random.random() < 0.8:
        calls(None, backward=True)
        found[f"{NET}.backward.0"] = None
        calls(f"{NET}.backward.0", backward=True)
        calls(None)
    return found


def record_of(name: str) -> Record:
    if ".backward" in name:
        return {"input": [tensor()], "output": [tensor()]}
    return forward([tensor()], [tensor()])


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_what_runs_backward_or_behind_its_begin_is_of_the_backward_pass(random: Random) -> None:
    construct = some_step(random)
    texts, names = Texts(), [*construct]
    with tempfile.TemporaryDirectory() as folder:
        data = {name: record_of(name) for name in names}
        side, _ = read_rank(write_dump(Path(folder) / "rank", data, construct), texts)
    known = Knowledge(side.tree, [side.table, side.table], texts, [0, 1])
    begins = [place for place, name in enumerate(names) if ".backward" in name]
    seen = set()
    for row, node in enumerate(side.table.node.tolist()):
        name = side.tree.names[node]
        host = construct[name]
        if ".backward" in name or (host or "").startswith(f"{NET}.backward"):
            expected = True
        elif host is None and not name.startswith("Module"):
            expected = bool(begins) and names.index(name) > begins[0]
        else:
            expected = False
        assert known.is_in_backward(row) == expected, (name, names)
        seen.add(name)
    assert seen == {*names}
