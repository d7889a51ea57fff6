"""The plugin's answers over HTTP, one connection each as TensorBoard has it."""

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tb_graph_ascend.generated import graph_pb2 as pb

NODES = 300
REPEATS = 5
SUBTREE = 100
PLACE = {"step": 0, "rank": 0}


@dataclass(frozen=True)
class Asked:
    """Milliseconds, the best of several; of nodes and candidates 95 % take less."""

    node: float
    candidates: float
    search: float
    expression: float | None  # None where the server gave up
    subtree: int  # nodes in the subtree that was matched
    match: float
    undo: float
    memory_bytes: int  # the most that TensorBoard held; 0 where the system does not tell


class Plugin:
    """Requests about one file."""

    def __init__(self, address: str, file: str) -> None:
        self._base = f"{address}data/plugin/graph_ascend/"
        self.file = file

    def get(self, route: str, **query: object) -> bytes:
        url = f"{self._base}{route}?{urlencode({'file': self.file, **query})}"
        with urlopen(url) as answer:
            content: bytes = answer.read()
        return content

    def post(self, route: str, **fields: object) -> float:
        """Milliseconds that a change takes."""
        body = {"file": self.file, "revision": self._revision(), **fields}
        headers = {"Content-Type": "application/json"}
        request = Request(self._base + route, json.dumps(body).encode(), headers)
        return timed(lambda: urlopen(request).read())

    def skeleton(self, side: int) -> pb.Skeleton:
        return pb.Skeleton.FromString(self.get("skeleton", **PLACE, side=side))

    def _revision(self) -> str:
        files = pb.Catalog.FromString(self.get("catalog")).files
        return next(one.revision for one in files if one.file == self.file)


def measure_server(address: str, file: str, process: int) -> Asked:
    plugin = Plugin(address, file)
    npu = plugin.skeleton(0)
    nodes = random.Random(0).sample(range(npu.node_count), NODES)

    def p95(route: str, indices: list[int]) -> float:
        ask = partial(plugin.get, route, **PLACE, side=0)
        times = sorted(timed(partial(ask, index=index)) for index in indices)
        return times[int(0.95 * (len(times) - 1))]

    search = best(lambda: plugin.get("search", name="q_proj"))
    expression = best_if_answered(
        lambda: plugin.get("search", name="layers.[0-3].*q_proj", regex=1)
    )
    top, partner = subtree_of(npu)
    match, undo = measure_match(plugin, top, partner)
    return Asked(
        node=p95("node", nodes),
        candidates=p95("candidates", nodes[:60]),
        search=search,
        expression=expression,
        subtree=npu.subtree_size[top],
        match=match,
        undo=undo,
        memory_bytes=memory(process, "VmHWM"),
    )


def measure_match(plugin: Plugin, npu: int, bench: int) -> tuple[float, float]:
    """Ends the matches of a subtree, then matches it anew and takes that back, a few times."""
    pair = {"npu": npu, "bench": bench, "descendants": True}
    plugin.post("match", **PLACE, operations=[{**pair, "action": "MATCH_ACTION_UNMATCH"}])
    matched, undone = [], []
    for _ in range(REPEATS):
        matched.append(plugin.post("match", **PLACE, operations=[pair]))
        undone.append(plugin.post("undo"))
    return min(matched), min(undone)


def subtree_of(npu: pb.Skeleton) -> tuple[int, int]:
    """The matched node whose subtree is nearest to the size asked for, and its partner."""
    matched = [node for node, grade in enumerate(npu.grade) if grade != pb.GRADE_UNMATCHED]
    offsets = dict(zip(matched, npu.partner_offset, strict=True))
    top = min(matched[1:], key=lambda node: abs(npu.subtree_size[node] - SUBTREE))
    return top, top + offsets[top]


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def best(action: Callable[[], object]) -> float:
    return min(timed(action) for _ in range(REPEATS))


def best_if_answered(action: Callable[[], object]) -> float | None:
    """None where the server refuses, as it does what takes it longer than some seconds."""
    try:
        return best(action)
    except HTTPError:
        return None


def memory(process: int, which: str) -> int:
    """Bytes of a process: VmHWM, the most it held, or VmRSS, now; 0 where no system tells."""
    status = Path(f"/proc/{process}/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    sizes = [line.split()[1] for line in lines if line.startswith(f"{which}:")]
    return int(sizes[0]) * 1024 if sizes else 0
