"""How long people wait when many look at once, against one who looks alone.

    python benchmarks/load.py LOGDIR [--users 20] [--turns 40]

A real TensorBoard serves all files below LOGDIR. Each user has a connection of his own and a file,
step, rank and side that follow from his number; he asks for hierarchies, nodes, searches and the
list of files in a fixed order, as fast as the answers come. Every answer is compared with what one
user alone was given, so an answer of somebody else's file would end the run. Both runs are on the
same machine in the same minute: their ratio says what the others cost.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

ROUTES = "/data/plugin/graph_ascend/"
NODES_PER_TURN = 6  # of each, then one search; a hierarchy every fifth turn


@dataclass(frozen=True)
class Place:
    """What one user looks at."""

    file: str
    step: int
    rank: int
    side: str
    nodes: int


class User:
    """One connection, as a browser keeps it, and the waits of its owner in seconds by route."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=300)
        self.waits: list[tuple[str, float]] = []

    def ask(self, route: str, **query: object) -> bytes:
        """The body of an answer; anything but 200 ends the run."""
        start = time.perf_counter()
        path = f"{ROUTES}{route}?{urlencode(query)}"
        self._connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        answer = self._connection.getresponse()
        body = answer.read()
        self.waits.append((route, time.perf_counter() - start))
        if answer.status != 200:
            raise SystemExit(f"{path} was answered {answer.status}: {body!r}")
        return gzip.decompress(body) if answer.headers["Content-Encoding"] else body

    def close(self) -> None:
        self._connection.close()


def look(user: User, place: Place, turns: int) -> list[bytes]:
    """What a person asks for while going from error to error; all answers."""
    where = {"file": place.file, "step": place.step, "rank": place.rank, "side": place.side}
    answers = []
    for turn in range(turns):
        if turn % 5 == 0:
            answers.append(user.ask("skeleton", **where))
        for number in range(NODES_PER_TURN):
            index = (turn * 37 + number * 101) % place.nodes
            answers.append(user.ask("node", **where, index=index))
        found = user.ask("search", file=place.file, name="linear", side=place.side, limit=50)
        answers.append(found)
    return answers


def places_of(address: str) -> list[Place]:
    """Every graph of every file."""
    with closing(User(address)) as user:
        catalog = json.loads(user.ask("catalog", format="json"))
    return [
        Place(file["file"], pair["step"], pair["rank"], side, pair[f"{side}Nodes"])
        for file in catalog["files"]
        for pair in file["graphs"]
        for side in ("npu", "bench")
        if pair[f"{side}Nodes"]
    ]


def run(address: str, places: list[Place], turns: int) -> tuple[list[User], list[list[bytes]]]:
    """Users at all places at once."""
    users = [User(address) for _ in places]
    answers: list[list[bytes]] = [[] for _ in places]

    def one(number: int) -> None:
        answers[number] = look(users[number], places[number], turns)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(places))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for user in users:
        user.close()
    return users, answers


def waits(users: list[User], route: str) -> list[float]:
    """Milliseconds, sorted."""
    found = [seconds for user in users for name, seconds in user.waits if name == route]
    return sorted(1000 * seconds for seconds in found)


def percentile(sorted_values: list[float], percent: int) -> float:
    return sorted_values[min(len(sorted_values) * percent // 100, len(sorted_values) - 1)]


def main() -> None:
    """Start TensorBoard, run one user after the other, then all at once, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logdir", type=Path)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--turns", type=int, default=40)
    options = parser.parse_args()
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(options.logdir)]
    server = subprocess.Popen(
        [*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert server.stdout is not None
    try:
        line = next(line for line in server.stdout if " at http" in line)
        address = line.partition(" at ")[2].split()[0]
        all_places = places_of(address)
        places = [all_places[user % len(all_places)] for user in range(options.users)]
        alone: list[User] = []
        expected = []
        for place in places:
            users, [answers] = run(address, [place], options.turns)
            alone += users
            expected.append(answers)
        together, found = run(address, places, options.turns)
    finally:
        server.terminate()
        server.communicate()
    if found != expected:
        raise SystemExit("Somebody was given what is not his.")
    print(
        f"{options.users} users, {len(set(places))} graphs, {sum(map(len, found)):,} answers alike"
    )
    for route in ("skeleton", "node", "search"):
        one, many = waits(alone, route), waits(together, route)
        shown = [
            f"{word} median {percentile(values, 50):.0f} ms, p99 {percentile(values, 99):.0f} ms"
            for word, values in (("alone", one), ("together", many))
        ]
        ratio = percentile(many, 99) / percentile(one, 99)
        print(f"{route}: {'; '.join(shown)}; p99 {ratio:.1f} times that of one alone")


if __name__ == "__main__":
    main()
