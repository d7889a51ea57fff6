"""Take the documentation's pictures: the main states of the viewer, on real training runs."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, FrameLocator, sync_playwright

from serve import tensorboard

REPOSITORY = Path(__file__).resolve().parent.parent
DUMPS = REPOSITORY / "tests" / "data"

WRONG = "Tensor.__mul__.19.forward"
RENAMED = "Module.model.layers.0.self_attention.q_proj.Linear.forward.0"


@dataclass(frozen=True)
class Comparison:
    """What is built for the pictures: two dumps below tests/data, or both of one of its pairs."""

    npu: str
    bench: str
    options: tuple[str, ...] = ()
    below: str = "step0/rank"
    names: tuple[str, str] = ("wrong scale", "right")
    keys: tuple[tuple[str, object], ...] = ()


COMPARISONS = {
    "attention_scale": Comparison(
        "llama_statistics_wrong_attention_scale", "llama_statistics", ("-oc",)
    ),
    "lost": Comparison(
        "pairs/residual_twice/npu",
        "pairs/residual_twice/bench",
        names=("residual added twice", "right"),
    ),
    "four_ranks": Comparison("ddp4_statistics_wrong_attention_scale", "ddp4_statistics", below=""),
    "nan": Comparison(
        "llama_statistics_nan_weight", "llama_statistics", ("-oc",), names=("NaN weight", "right")
    ),
    # By names alone, so that there is something left to match by hand.
    "renamed": Comparison(
        "llama_statistics_renamed_all",
        "llama_statistics",
        ("--exact",),
        names=("renamed", "original"),
    ),
    "pipeline": Comparison(
        "sendrecv4_statistics", "sendrecv4_statistics", below="step0", names=("one", "again")
    ),
    "merged": Comparison(
        "megatron_tp2pp2",
        "megatron_tp1pp1",
        below="step0",
        names=("4 ranks", "1 rank"),
        keys=(
            (
                "parallel_merge",
                {
                    "npu": {"rank_size": 4, "tp": 2, "pp": 2},
                    "bench": {"rank_size": 1, "tp": 1, "pp": 1},
                },
            ),
        ),
    ),
}


def show_nothing_more(_: FrameLocator) -> None:
    """The address says it all."""


def show_search(frame: FrameLocator) -> None:
    frame.locator("ga-search #list").click()
    frame.locator("ga-find [data-kind='grades'][data-value='3']").click()
    frame.locator("ga-hit-list .hit").first.click()
    frame.locator("ga-node-summary h2").wait_for()


def show_matching(frame: FrameLocator) -> None:
    frame.locator("ga-details #match").click()
    frame.locator("ga-match .candidates input").first.click()
    frame.locator("ga-match #descendants").check()
    frame.locator("ga-match #preview li").nth(1).wait_for()


def show_communication(frame: FrameLocator) -> None:
    frame.locator("ga-details #communication").click()


@dataclass(frozen=True)
class Picture:
    """What to open, in which looks, and what to do then."""

    file: str
    node: str = ""
    place: str = "&p.graph_ascend.step=0&p.graph_ascend.rank=0"
    scheme: Literal["light", "dark"] = "light"
    locale: str = "en-US"
    height: int = 830
    then: Callable[[FrameLocator], None] = show_nothing_more


PICTURES = {
    "gap": Picture("lost", "Tensor.__add__.12.forward", height=700),
    "gap-chinese": Picture("lost", "Tensor.__add__.12.forward", height=700, locale="zh-CN"),
    "overview": Picture("four_ranks", place="&p.graph_ascend.page=overview"),
    "demo-light": Picture("attention_scale", WRONG),
    "demo-dark": Picture("attention_scale", WRONG, scheme="dark"),
    "chinese": Picture("attention_scale", WRONG, locale="zh-CN"),
    "search": Picture("attention_scale", height=760, then=show_search),
    "overflow": Picture("nan", "Module.model.layers.1.mlp.LlamaMLP.forward.0"),
    "matching": Picture("renamed", RENAMED, then=show_matching),
    "merge": Picture(
        "merged",
        "Module.0.decoder.layers.0.self_attention.linear_qkv.ColumnParallelLinear.forward.0",
        height=790,
    ),
    "communication": Picture(
        "pipeline",
        "Distributed.recv.0.forward",
        "&p.graph_ascend.step=0&p.graph_ascend.rank=1",
        then=show_communication,
    ),
}


def build(work: Path, name: str, comparison: Comparison) -> None:
    """Unpack two dumps and compare them into work/runs."""
    for dump in {comparison.npu, comparison.bench}:
        folder = Path(dump)
        archive = next(DUMPS.glob(f"{folder.parent if folder.parent.name else folder}.tar.xz"))
        into = work / archive.relative_to(DUMPS).parent
        into.mkdir(exist_ok=True)
        unpack = [sys.executable, "-m", "tarfile", "--extract", str(archive), str(into)]
        subprocess.run(unpack, cwd=work, check=True)
    config = work / f"{name}.json"
    request: dict[str, object] = {"is_print_compare_log": False, **dict(comparison.keys)}
    for key, dump in (("npu_path", comparison.npu), ("bench_path", comparison.bench)):
        request[key] = f"./{dump}/{comparison.below}".rstrip("/")
    config.write_text(json.dumps(request), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "msprobe_builder.command.main",
        "-i",
        config.name,
        "-o",
        "runs",
    ]
    command += ["--output-name", name, "--quiet", "--names", *comparison.names]
    command += comparison.options
    subprocess.run(command, cwd=work, check=True)


def take(browser: Browser, address: str, picture: Picture, path: Path) -> None:
    page = browser.new_page(
        viewport={"width": 1280, "height": picture.height},
        locale=picture.locale,
        color_scheme=picture.scheme,
        reduced_motion="reduce",
    )
    fragment = f"&p.graph_ascend.file={picture.file}.vis.db{picture.place}"
    if picture.node:
        fragment += f"&p.graph_ascend.node={picture.node}"
    page.goto(address + fragment)
    frame = page.frame_locator("iframe")
    shown = "ga-node-summary h2" if picture.node else "ga-overview .cell, ga-legend button"
    frame.locator(shown).first.wait_for()
    picture.then(frame)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=path)
    page.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("names", nargs="*", help="which pictures; all when not given")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        names = options.names or list(PICTURES)
        for file in {PICTURES[name].file for name in names}:
            build(work, file, COMPARISONS[file])
        with (
            tensorboard(str(work / "runs"), None) as (address, _),
            sync_playwright() as playwright,
        ):
            sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = playwright.chromium.launch(
                executable_path=os.environ["CHROMIUM"], args=["--disable-gpu", *sandbox]
            )
            for name in names:
                take(browser, address, PICTURES[name], options.out / f"{name}.png")
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
