"""What users come for, at 1280 × 720, with the actions that it takes them counted.

An action is a key, a click, or a text that is typed. Who made which fault, and where, is known from
how the runs were recorded, not from the verdict.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Frame, Page, expect

from tests.browser.conftest import generate
from tests.browser.task_files import (
    BEGINS,
    write_deep,
    write_extra_call,
    write_grid,
    write_one_wrong_rank,
)
from tests.browser.viewer import open_page
from tests.conftest import BuildDatabase, StartTensorBoard
from tests.plugin.example import write_example, write_example_trend

OVERVIEW = "&p.graph_ascend.page=overview"
SCALE = "Tensor.__mul__.19.forward"  # the wrong scale of the attention in layer 1
AT_SCALE = f"&p.graph_ascend.node={SCALE}"
SOFTMAX = "Functional.softmax.1.forward"  # that of layer 1
TITLE, TABLE, VERDICT = "ga-node-summary h2", "ga-tensor-table tbody", "ga-verdict-line .sentence"
TWO_SIDES = "new Set(app.scene.map((row) => row.side)).size === 2"


@dataclass(frozen=True)
class Task:
    """What is to be found out: on which file, from where, by which actions, and how it is seen."""

    file: str
    actions: tuple[str, ...] = ()  # "key v", "type text", "click SELECTOR"
    shown: tuple[tuple[str, str], ...] = ()  # elements in the window and what they say
    holds: str = "true"  # of `app`, the viewer
    fragment: str = ""
    size: tuple[int, int] = (1280, 720)
    most: int = 2


TASKS = {
    # -- where did it begin?
    "the culprit of one step": Task("demo", (), ((TITLE, SCALE),)),
    "the culprit from the overview, by key": Task(
        "ddp", ("key v",), ((TITLE, SCALE),), fragment=OVERVIEW
    ),
    "the culprit from the overview, by mouse": Task(
        "ddp", ("click ga-verdict button#go",), ((TITLE, SCALE),), fragment=OVERVIEW
    ),
    "what is wrong with it": Task("demo", (), ((VERDICT, "0.375 → 0.25"), (TABLE, "0.375"))),
    "the line of code": Task("demo", (), (("ga-call-site", "modeling_llama.py:193"),)),
    "the next best guess": Task("demo", ("key v",), ((TITLE, "Tensor.__mul__.44.forward"),)),
    "how sure, and what to do next": Task(
        "demo", ("key j",), (("ga-card", "msprobe-operators check"),)
    ),
    "the ranks that differ": Task(
        "rank", (), (("ga-overview .cell.lead[data-rank='2']", ""),), fragment=OVERVIEW
    ),
    "where it begins among 12 × 64": Task(
        "grid",
        (),
        ((f"ga-overview .cell.lead[data-step='{BEGINS[0]}'][data-rank='{BEGINS[1]}']", ""),),
        fragment=OVERVIEW,
    ),
    "into the graph where it begins": Task(
        "grid",
        ("key Enter",),
        holds="app.state.view.step === 3 && app.state.view.rank === 17 && app.state.graphs",
        fragment=OVERVIEW,
    ),
    "a call that the other run lacks, and where it should stand": Task(
        "extra",
        ("key v",),
        ((TITLE, "Outer"), (VERDICT, "no such call")),
        """(() => {
          const chosen = app.scene.find((row) => row.selected && row.side === 0);
          return chosen && !app.scene.some((row) => row.side === 1 && row.y === chosen.y);
        })()""",
    ),
    "the loss of both runs": Task(
        "ddp",
        (),
        (("ga-overview .loss .own", "wrong_attention_scale"), ("ga-overview .loss svg", "4.1")),
        fragment=OVERVIEW,
    ),
    # -- along the data
    "the maker of a tensor": Task(
        "demo", ("key g",), ((TITLE, "Torch.matmul.2.forward"),), fragment=AT_SCALE
    ),
    "back from there": Task(
        "demo", ("key g", "key Backspace"), ((TITLE, SCALE),), fragment=AT_SCALE
    ),
    "the same node in all steps and ranks": Task(
        "ddp",
        ("click ga-details button >> text=Steps and ranks",),
        holds="app.shadowRoot.querySelector('ga-details').shadowRoot.querySelector('ga-across')"
        ".shadowRoot.querySelectorAll('.place').length === 8",
        fragment=f"{AT_SCALE}&p.graph_ascend.step=0&p.graph_ascend.rank=0",
    ),
    "the same node one rank on": Task(
        "ddp",
        ("key ]",),
        ((TITLE, SCALE),),
        "app.state.view.rank === 1",
        fragment=f"{AT_SCALE}&p.graph_ascend.step=0&p.graph_ascend.rank=0",
    ),
    # -- by name
    "an operator within a layer, by typing": Task(
        "demo", ("key /", "type layers.1 softmax", "key Enter"), ((TITLE, SOFTMAX),), most=3
    ),
    "calls of a line of code": Task(
        "demo",
        ("key /", "type modeling_llama.py:193", "key Enter"),
        holds="/^Tensor.__mul__/.test(app.graphName ?? app.state.detail?.npu?.name)",
        most=3,
    ),
    "a command by its name": Task(
        "demo", ("key :", "type one tree", "key Enter"), holds="app.state.view.unified", most=3
    ),
    "one of 64 ranks by typing": Task(
        "grid",
        ("click ga-toolbar #rank", "type 17", "key Enter"),
        holds="app.state.view.rank === 17 && app.state.graphs",
        fragment="&p.graph_ascend.step=0&p.graph_ascend.rank=0",
        most=3,
    ),
    "what is moderate in layer 1": Task(
        "demo",
        (
            *("key /", "type layers.1", "click ga-search #list"),
            "click ga-find [data-kind='grades'][data-value='3']",
        ),
        (("ga-hit-list .hit", "layers.1"),),
        most=4,
    ),
    # -- more than one graph
    "what moves most over many steps": Task(
        "trend", ("click ga-trend #open",), (("ga-trend #count", "2 rows"),)
    ),
    "a report to hand on": Task(
        "demo",
        ("click ga-view-tools ga-menu #button", "click text=Save the report as one HTML file"),
        (("ga-toast [role='status']", "_report.html"),),
    ),
    "a pair taken apart and put together again": Task(
        "own",
        (
            *("click ga-details #match", "click ga-match #end", "see ga-match #undo:enabled"),
            *("key u", "key u"),  # the first says what would be undone
        ),
        holds="app.state.detail?.bench && app.state.catalog.files[0].edits.redo",
        fragment=AT_SCALE,
        most=4,
    ),
    "another partner than the one that was just ended": Task(
        "own",
        ("click ga-details #match", "click ga-match #end", "see ga-match #undo:enabled"),
        # It is offered, but not chosen: who ends a match wants another one.
        holds=f"""(() => {{
          const details = app.shadowRoot.querySelector('ga-details');
          const {{ candidates, chosen }} = details.shadowRoot.querySelector('ga-match');
          const names = candidates.map((one) => one.name);
          const ended = app.state.detail && !app.state.detail.bench;
          return ended && names.includes('{SCALE}') && chosen?.name !== '{SCALE}';
        }})()""",
        fragment=AT_SCALE,
    ),
    # -- the picture
    "both runs in one tree": Task("demo", ("key i",), holds="app.state.view.unified"),
    "the documented colours": Task("demo", ("key c",), holds="app.state.view.colours !== ''"),
    "another implementation, both sides unfolded": Task("other", (), holds=TWO_SIDES),
    "what lies 81 deep": Task("deep", (), ((TITLE, "Functional.gelu.0.forward"),)),
    "the verdict on 480 pixels": Task("demo", (), ((VERDICT, "0.375"),), size=(480, 720)),
    "the verdict at 200 %": Task("demo", (), ((VERDICT, "0.375"),), size=(640, 360)),
}


@pytest.fixture(scope="session")
def files(
    tmp_path_factory: pytest.TempPathFactory,
    pairs: Path,
    build_database: BuildDatabase,
    demo_database: Path,
    ddp_database: Path,
    small_database: Path,
) -> Callable[[str], Path]:
    """Each file when the first task needs it."""
    made: dict[str, Path] = {"demo": demo_database, "ddp": ddp_database}

    def folder() -> Path:
        return tmp_path_factory.mktemp("task")

    makers: dict[str, Callable[[], Path]] = {
        "rank": lambda: build_database(*write_one_wrong_rank(folder())),
        "extra": lambda: build_database(*write_extra_call(folder())),
        "deep": lambda: build_database(*write_deep(folder())),
        "grid": lambda: write_grid(small_database, folder() / "grid.vis.db"),
        "other": lambda: build_database(pairs / "own_llama" / "npu", pairs / "own_llama" / "bench"),
        "own": lambda: Path(shutil.copy(demo_database, folder())),
        "trend": lambda: write_trend(folder()),
        "large": lambda: generate(folder() / "large.vis.db", "--nodes", "213000"),
    }

    def file(name: str) -> Path:
        # What a task changes is new for each try.
        if name not in made or name == "own":
            made[name] = makers[name]()
        return made[name]

    return file


def write_trend(folder: Path) -> Path:
    write_example_trend(folder / "run.trend.db")
    write_example(folder / "example.vis.db")
    return folder / "example.vis.db"


def do(page: Page, frame: Frame, action: str) -> None:
    kind, _, what = action.partition(" ")
    if kind == "key":
        page.keyboard.press(what)
    elif kind == "type":
        page.keyboard.type(what)
    elif kind == "see":  # is no action
        expect(frame.locator(what)).to_be_visible()
    else:
        frame.locator(what).first.click()


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_solved_with_few_actions(
    name: str, page: Page, files: Callable[[str], Path], tensorboard_server: StartTensorBoard
) -> None:
    task = TASKS[name]
    assert sum(not action.startswith("see ") for action in task.actions) <= task.most
    page.set_viewport_size(dict(zip(("width", "height"), task.size, strict=True)))  # type: ignore[arg-type]
    address = tensorboard_server(files(task.file).parent)
    frame = open_page(page, address, f"#graph_ascend{task.fragment}")
    frame.wait_for_function(
        """() => {
          const { state } = document.querySelector('ga-app');
          return state?.catalog && state.busy === null && !state.detailBusy;
        }"""
    )
    for action in task.actions:
        do(page, frame, action)
    for selector, text in task.shown:
        found = frame.locator(selector).first
        expect(found).to_contain_text(text)
        expect(found).to_be_in_viewport()
    frame.wait_for_function(
        f"() => {{ const app = document.querySelector('ga-app'); return {task.holds}; }}"
    )


@pytest.mark.slow
def test_what_was_planted_in_213_000_nodes_is_two_actions_away(
    page: Page, files: Callable[[str], Path], tensorboard_server: StartTensorBoard
) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    frame = open_page(page, tensorboard_server(files("large").parent))
    frame.wait_for_function("document.querySelector('ga-app').state?.graphs")
    page.keyboard.press("e")
    frame.wait_for_function("document.querySelector('ga-app').state.detail")
    assert frame.evaluate("document.querySelector('ga-app').scene.some((row) => row.selected)")
