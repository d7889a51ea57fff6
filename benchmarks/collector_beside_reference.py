"""The same training step recorded by this collector and by the reference: which records agree?

    python benchmarks/collector_beside_reference.py --reference PYTHON [--list]

PYTHON is an interpreter with mindstudio-probe and torch. A record agrees when it stands under the
same name and holds, place by place, tensors of the same type, shape and statistics.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
STATISTICS = ("Max", "Min", "Mean", "Norm")
MODELS = ("llama", "mixtral", "resnet", "vit", "gru", "gpt2", "scaled")


def build(name: str) -> tuple[Any, Any, Callable[[Any, Any], Any]]:
    """A model, a batch and its loss."""
    sys.path.insert(0, str(REPOSITORY))
    from tests.collector import models
    from tests.collector.more_models import MORE_MODELS

    make, data = {**models.MODELS, **MORE_MODELS}[name]
    return make(), data(), models.loss_of


def record(name: str, tool: str, folder: Path) -> None:
    """One step with two micro-steps into ``folder``; runs in a process of its own."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, data, loss_of = build(name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False)
    if tool == "reference":
        from msprobe.pytorch import PrecisionDebugger  # type: ignore[import-not-found]
    else:
        from msprobe_collector import PrecisionDebugger
    config = {"task": "statistics", "level": "mix", "dump_path": str(folder / "dump")}
    config["risk_level"] = "ALL"  # else release 26 leaves out what merely changes a shape
    extra: dict[str, Any] = {"rank": [], "step": [], "statistics": {"list": [], "scope": []}}
    (folder / "config.json").write_text(json.dumps(config | extra))
    debugger = PrecisionDebugger(config_path=str(folder / "config.json"))
    torch.manual_seed(1)
    debugger.start(model)
    for _ in range(2):
        (loss_of(model, data) / 2).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
    optimizer.step()
    debugger.stop()
    debugger.step()


def read(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("dump/step0/*/dump.json")
    records: dict[str, Any] = json.loads(path.read_text())["data"]
    return records


def kind_of(name: str) -> str:
    if ".parameters_grad" in name:
        return "parameters_grad"
    return "backward" if ".backward" in name else "forward"


def difference(ours: Any, theirs: Any, where: str = "") -> str | None:
    """The first place where a record of theirs is not found in ours."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key, value in theirs.items():
            if key == "is_recompute":
                continue  # there a custom function's backward counts as one, too
            if key in STATISTICS:
                if key == "Norm" and theirs.get("shape") == [] and isinstance(value, float):
                    value = abs(value)  # there it has a sign
                if value is None and isinstance(ours.get(key), float):
                    continue  # release 26 leaves out mean and norm of whole numbers
                if not near(ours.get(key), value, theirs):
                    return f"{where}.{key}: {ours.get(key)} for {value}"
            else:
                found = difference(ours.get(key), value, f"{where}.{key}")
                if found:
                    return found
        return None
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(ours) != len(theirs):
            return f"{where}: {len(ours)} for {len(theirs)} values"
        pairs = enumerate(zip(ours, theirs, strict=True))
        return next((d for n, p in pairs if (d := difference(*p, f"{where}.{n}"))), None)
    if isinstance(theirs, float) and isinstance(ours, float):
        return None if near(ours, theirs, {}) else f"{where}: {ours} for {theirs}"
    return None if ours == theirs else f"{where}: {str(ours)[:60]} for {str(theirs)[:60]}"


def near(ours: Any, theirs: Any, item: dict[str, Any]) -> bool:
    if theirs is None or ours is None or isinstance(theirs, (bool, str)):
        return bool(ours == theirs)
    size = max((abs(v) for k in STATISTICS if isinstance(v := item.get(k), float)), default=0.0)
    # A mean is a sum of numbers as large as the largest; it may nearly cancel.
    slack = 1e-5 * size if math.isfinite(size) else 0.0
    return math.isclose(ours, theirs, rel_tol=1e-4, abs_tol=slack) or ours != ours != theirs


def run(python: str, name: str, tool: str, folder: Path) -> dict[str, Any]:
    command = [python, __file__, "--record", name, tool, str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return read(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare with the reference collector.")
    parser.add_argument("--reference", help="a Python that has mindstudio-probe and torch")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--list", action="store_true", help="name each record that differs")
    parser.add_argument("--record", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        name, tool, folder = options.record
        record(name, tool, Path(folder))
        return
    print("| model | forward | backward | parameters_grad | only here |")
    print("|---|---|---|---|---|")
    totals: Counter[str] = Counter()
    for name in options.models:
        with tempfile.TemporaryDirectory() as top:
            dumps = []
            for tool, python in (("ours", sys.executable), ("reference", options.reference)):
                folder = Path(top) / tool
                folder.mkdir()
                dumps.append(run(python, name, tool, folder))
        ours, theirs = dumps
        counts: Counter[str] = Counter()
        differing = []
        for call, wanted in theirs.items():
            kind = kind_of(call)
            counts[kind] += 1
            missing = call not in ours
            found = "missing" if missing else difference(ours[call], wanted)
            counts[f"{kind} equal"] += found is None
            if found:
                differing.append(f"    {call} {found}")
        totals += counts
        only = sum(call not in theirs for call in ours)
        print(row(name, counts, only), flush=True)
        if options.list:
            print("\n".join(differing))
    print(row("all", totals, None))


def row(name: str, counts: Counter[str], only: int | None) -> str:
    kinds = ("forward", "backward", "parameters_grad")
    cells = [f"{counts[f'{kind} equal']} of {counts[kind]}" for kind in kinds]
    return f"| {name} | {' | '.join(cells)} | {'' if only is None else only} |"


if __name__ == "__main__":
    main()
