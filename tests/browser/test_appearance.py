"""Language and theme."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.browser.viewer import (
    DOCUMENTED,
    open_viewer,
    plugin_frame,
    resting_scene,
    select_node,
    wait_for_details,
)
from tests.conftest import StartTensorBoard

BACKGROUND = "getComputedStyle(document.querySelector('ga-app')).backgroundColor"
CORNER = """document.querySelector('ga-app').shadowRoot.querySelector('ga-hierarchy').shadowRoot
  .querySelector('canvas').getContext('2d').getImageData(1, 1, 1, 1).data[0]"""


def test_switches_to_chinese_without_reload_and_remembers_it(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    select_node(frame, "Tensor.pow.4.forward")
    expect(frame.locator("ga-verdict-line .sentence")).to_contain_text("argument 1: 0.375 → 0.25")
    frame.evaluate("window.mark = 'same page'")
    before = resting_scene(frame)

    frame.click("ga-toolbar #language")
    expect(frame.locator("ga-legend button[data-key='part-suspect']")).to_contain_text("嫌疑")
    expect(frame.locator("ga-verdict-line .sentence")).to_contain_text("参数 1: 0.375 → 0.25")
    expect(frame.get_by_role("tab", name="张量")).to_be_visible()
    expect(frame.locator("ga-tensor-table")).to_contain_text("与误差并列")
    assert frame.evaluate("window.mark") == "same page"
    assert frame.evaluate("document.documentElement.lang") == "zh-CN"
    assert resting_scene(frame) == before, "the view stays as it was"

    page.reload()
    expect(plugin_frame(page).locator("ga-toolbar #language")).to_have_text("EN")


def test_begins_in_the_language_of_the_browser(
    browser: Browser, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    context = browser.new_context(locale="zh-CN")
    page = context.new_page()
    frame = open_viewer(page, tensorboard_server(demo_database.parent))

    expect(frame.locator("ga-hierarchy .side").first).to_contain_text("调试侧")
    context.close()


def test_follows_the_dark_mode_of_tensorboard_and_can_be_told_otherwise(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent), in_tab=True)
    app = frame.locator("ga-app")
    expect(app).to_have_attribute("theme", "light")
    light = frame.evaluate(BACKGROUND)
    assert frame.evaluate(CORNER) > 200

    page.evaluate("document.body.classList.add('dark-mode')")
    expect(app).to_have_attribute("theme", "dark")
    assert frame.evaluate(BACKGROUND) != light
    frame.wait_for_function(f"{CORNER} < 60")

    frame.click("ga-toolbar #theme")
    expect(app).to_have_attribute("theme", "light")
    frame.wait_for_function(f"{CORNER} > 200")
    page.reload()
    expect(plugin_frame(page).locator("ga-app")).to_have_attribute("theme", "light")
    frame = plugin_frame(page)
    frame.click("ga-toolbar #theme")
    expect(frame.locator("ga-app")).to_have_attribute("theme", "dark")


def test_helps_with_its_keys(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))

    frame.click("ga-toolbar #help")
    expect(frame.get_by_role("dialog")).to_contain_text("Keys and gestures")
    page.keyboard.press("Escape")
    expect(frame.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("?")
    expect(frame.get_by_role("dialog")).to_be_visible()


def test_forced_colours_keep_the_marks_of_grades(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent), DOCUMENTED)
    wait_for_details(frame, "Tensor.__mul__.19.forward")
    page.emulate_media(forced_colors="active", reduced_motion="reduce")
    bars = frame.locator("ga-tensor-table .bars").first
    expect(bars).to_have_css("forced-color-adjust", "none")
    # Drawn in the colour of text, whatever that is.
    text = frame.evaluate(
        """() => {
          const probe = document.body.appendChild(document.createElement('i'));
          probe.style.color = 'CanvasText';
          const { color } = getComputedStyle(probe);
          probe.remove();
          return color;
        }"""
    )
    expect(bars).to_have_css("color", text)


def test_forced_colours_decide_on_the_theme_and_the_legend_shows_those_of_the_graph(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    """A canvas keeps its colours: light ones amid black would be all that is seen, or not seen."""
    frame = open_viewer(page, tensorboard_server(demo_database.parent), in_tab=True)
    app = frame.locator("ga-app")
    expect(app).to_have_attribute("theme", "light")
    page.emulate_media(forced_colors="active", color_scheme="dark", reduced_motion="reduce")
    expect(app).to_have_attribute("theme", "dark")  # though TensorBoard is light
    frame.wait_for_function(f"{CORNER} < 60")
    swatches = frame.locator("ga-legend button:not([disabled]) .swatch")
    shown = swatches.evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)")
    assert len(shown) == len(set(shown)) == 4, shown  # the suspect, what carries it on, clean …
    page.emulate_media(forced_colors="none", color_scheme="dark", reduced_motion="reduce")
    expect(app).to_have_attribute("theme", "light")
