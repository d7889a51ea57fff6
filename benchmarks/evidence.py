"""What sketches, the flow of data and the verdict add to a comparison.

    python benchmarks/evidence.py [--nodes 22000 64000 213000] [--runs 3]

The collector records a small decoder over many micro-steps, once right and once with a fault in
each of them. The pair is built in turn with all files, and with those of sketches, of flow, or of
both left out. The verdict is told by a build that has all of them.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from build import REPOSITORY, Cost, measure
from result_tables import write_tables

KINDS = {
    "neither": (),
    "sketches": ("sketch.bin",),
    "flow": ("flow.bin",),
    "both": ("sketch.bin", "flow.bin"),
}
_CALLS = 221  # of a micro-step
_BUILD = """
import sys, time
from msprobe_builder.command.main import main
from msprobe_builder.pipeline import store

taken = [0.0]

def timed(work):
    def run(*arguments):
        begin = time.process_time()
        try:
            return work(*arguments)
        finally:
            taken[0] += time.process_time() - begin
    return run

store.judge_pair = timed(store.judge_pair)
store.write_judgement = timed(store.write_judgement)
where = sys.argv.pop(1)
status = main()
open(where, "w").write(str(taken[0]))
sys.exit(status)
"""


def record(folder: Path, calls: int, is_wrong: bool) -> None:
    """Write a dump of about so many calls; runs in a process of its own."""
    sys.path.insert(0, str(REPOSITORY))
    import types

    import torch
    import torch.nn.functional as F  # noqa: N812

    from msprobe_collector import PrecisionDebugger
    from tests.collector import models

    def wrong_norm(self: models.RMSNorm, x: torch.Tensor) -> torch.Tensor:
        variance = x.float().pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-1))

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = models.Decoder().eval()
    data = torch.randint(0, models.VOCABULARY, (64, 2, models.TOKENS))
    if is_wrong:
        norm: Any = model.get_submodule("layers.1.post_norm")
        norm.forward = types.MethodType(wrong_norm, norm)
    config = {"task": "statistics", "level": "mix", "dump_path": str(folder / "dump")}
    section = {"summary_mode": "sketch", "flow": True}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config | {"statistics": section}))
    debugger = PrecisionDebugger(config_path=str(folder / "config.json"))
    debugger.start(model)
    for number in range(round(calls / _CALLS)):
        tokens = data[number % len(data)]
        logits = model(tokens).reshape(-1, models.VOCABULARY)
        F.cross_entropy(logits, tokens.reshape(-1)).backward()
    debugger.stop()
    debugger.step()


def built(pair: Path, kind: str) -> tuple[Cost, float]:
    """One build of the sides in ``pair``, and the seconds of CPU of its verdict."""
    output = pair / "out"
    shutil.rmtree(output, ignore_errors=True)
    where = pair / "verdict"
    sides = [str(pair / kind / side) for side in ("wrong", "right")]
    command = [sys.executable, "-c", _BUILD, str(where), *sides, "-o", str(output), "--quiet"]
    return measure(command, output), float(where.read_text())


def main() -> None:
    """Measure and print, and with ``--write`` put the table among the results."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--nodes", type=int, nargs="*", default=[22_000, 64_000, 213_000])
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--write", action="store_true", help="into results/performance.md")
    arguments.add_argument("--record", nargs=3, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.record:
        folder, calls, side = options.record
        record(Path(folder), int(calls), side == "wrong")
        return
    table = [
        "| pairs | files | CPU s | of neither | memory MB | file MB | verdict |",
        "|--:|---|--:|--:|--:|--:|--:|",
    ]
    print("\n".join(table))
    for nodes in options.nodes:
        with tempfile.TemporaryDirectory(prefix="evidence_") as name:
            pair = Path(name)
            for side in ("wrong", "right"):
                given = [str(pair / side), str(nodes), side]
                command = [sys.executable, __file__, "--record", *given]
                subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
                step = pair / side / "dump" / "step0" / "rank"
                for kind, binary in KINDS.items():
                    to = pair / kind / side
                    to.mkdir(parents=True)
                    for file in ("dump.json", "construct.json", "stack.json", *binary):
                        (to / file).symlink_to(step / file)
            calls = (pair / "right/dump/step0/rank/construct.json").read_text().count("\n") - 1
            found: dict[str, list[tuple[Cost, float]]] = {kind: [] for kind in KINDS}
            for _ in range(options.runs):
                for kind in KINDS:
                    found[kind].append(built(pair, kind))
            for kind, costs in found.items():
                pairs = zip(costs, found["neither"], strict=True)
                ratio = median(one.cpu / other.cpu for (one, _), (other, _) in pairs)
                share = median(verdict / cost.cpu for cost, verdict in costs)
                table.append(
                    f"| {calls:,} | {kind} | {median(one.cpu for one, _ in costs):.2f} "
                    f"| {ratio:.2f} | {median(one.memory for one, _ in costs) / 1e6:,.0f} "
                    f"| {costs[-1][0].file / 1e6:.1f} | {share:.0%} |"
                )
                print(table[-1], flush=True)
    if options.write:
        write_tables("performance.md", "Sketches, flow and verdict", [table])


if __name__ == "__main__":
    main()
