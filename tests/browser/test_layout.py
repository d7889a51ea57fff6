"""From 400 to 3840 pixels wide everything has its place, and nothing covers a control."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Frame, expect

from tests.browser.viewer import open_page, open_viewer
from tests.conftest import StartTensorBoard

# 640 by 360 is what a zoom of 200 % leaves of 1280 by 720.
SIZES = (
    (400, 800),
    (640, 360),
    (800, 600),
    (1100, 720),
    (1280, 720),
    (1440, 900),
    (1920, 1080),
    (2560, 1440),
    (3840, 2160),
)
NODE = "&p.graph_ascend.step=0&p.graph_ascend.rank=0&p.graph_ascend.node=Tensor.pow.4.forward"

# What a click in the middle of each control would hit, where that is not the control.
COVERED = """() => {
  const deep = (root) => [...root.querySelectorAll('*')]
    .flatMap((element) => [element, ...(element.shadowRoot ? deep(element.shadowRoot) : [])]);
  const hit = (x, y) => {
    let found = document.elementFromPoint(x, y);
    for (let inner = found; inner?.shadowRoot;) {
      inner = inner.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === found) break;
      found = inner;
    }
    return found;
  };
  const holds = (outer, element) => {
    for (let at = element; at; at = at.parentNode ?? at.host) if (at === outer) return true;
    return false;
  };
  const isElsewhere = (element) => {
    for (let at = element.parentNode; at; at = at.parentNode ?? at.host) {
      if (!(at instanceof Element)) continue;
      const isScrolled = at.scrollHeight > at.clientHeight + 1
        && getComputedStyle(at).overflowY === 'auto';
      if (at.localName === 'ga-app') continue; // a small window scrolls the page, as below
      if (at.inert || isScrolled) return true;
      // The last columns of a table are reached by scrolling it sideways.
      const [own, all] = [element.getBoundingClientRect(), at.getBoundingClientRect()];
      const isBeside = own.x + own.width / 2 > all.x + at.clientWidth;
      if (isBeside && getComputedStyle(at).overflowX === 'auto') return true;
    }
    return false;
  };
  return deep(document)
    .filter((element) => element.matches('button, select, input:not([type=file])')
      && element.checkVisibility({ visibilityProperty: true })
      && !element.closest('.visually-hidden') && !isElsewhere(element))
    .map((element) => {
      element.scrollIntoView({ block: 'nearest' });
      const box = element.getBoundingClientRect();
      return { element, found: hit(box.x + box.width / 2, box.y + box.height / 2) };
    })
    .filter(({ element, found }) => !found || !holds(element, found))
    .map(({ element, found }) => `${element.id || element.outerHTML.slice(0, 80)} is covered by `
      + (found ? found.localName + '#' + found.id + '.' + found.className : 'the edge'));
}"""
# What fields say while they are empty, where they are too narrow for it; and leftover brackets.
CUT = """() => {
  const deep = (root) => [...root.querySelectorAll('*')]
    .flatMap((element) => [element, ...(element.shadowRoot ? deep(element.shadowRoot) : [])]);
  const pen = document.createElement('canvas').getContext('2d');
  const shown = deep(document).filter((element) => element.checkVisibility());
  const cut = shown.filter((element) => {
    const style = getComputedStyle(element);
    pen.font = style.font;
    const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
    const room = element.clientWidth - padding;
    return element.placeholder && pen.measureText(element.placeholder).width > room;
  });
  const leftover = shown.filter((element) => element.localName !== 'style')
    .flatMap((element) => [...element.childNodes])
    .filter((node) => node.nodeType === Node.TEXT_NODE)
    .filter((node) => /^\\s*([<>]+|.*\\[\\[.*)\\s*$/.test(node.data));
  return [...cut.map((element) => element.placeholder), ...leftover.map((node) => node.data)];
}"""
WIDER_THAN_THE_WINDOW = """() => [document.scrollingElement, document.querySelector('ga-app')]
  .some((page) => page.scrollWidth > innerWidth)"""


# English has the longer words.
@pytest.fixture(params=["en-US", pytest.param("zh-CN", marks=pytest.mark.slow)])
def locale(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def check_sizes(frame: Frame) -> None:
    page = frame.page
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        frame.wait_for_function(f"innerWidth === {width}")
        assert not frame.evaluate(WIDER_THAN_THE_WINDOW), f"scrolls sideways at {width}"
        assert frame.evaluate(COVERED) == [], f"at {width}"
        assert width < 1280 or frame.evaluate(CUT) == [], f"at {width}"


def test_graph_details_and_list(
    browser: Browser, nan_database: Path, tensorboard_server: StartTensorBoard, locale: str
) -> None:
    with browser.new_context(locale=locale) as context:
        fragment = f"#graph_ascend{NODE}"
        frame = open_viewer(
            context.new_page(), tensorboard_server(nan_database.parent), fragment, in_tab=True
        )
        expect(frame.locator("ga-node-summary h2")).to_be_visible()
        check_sizes(frame)
        frame.click("ga-search #list")
        expect(frame.locator("ga-find")).to_be_visible()
        check_sizes(frame)
        frame.click("ga-details #match")
        expect(frame.locator("ga-match #end")).to_be_visible()
        preview = frame.locator("ga-match #preview")
        expect(preview.locator("li").first).to_be_attached()
        check_sizes(frame)
        for width, height in SIZES:
            frame.page.set_viewport_size({"width": width, "height": height})
            frame.wait_for_function(f"innerWidth === {width}")
            assert preview.evaluate("element => element.clientHeight") >= 40, f"at {width}"


def test_overview(
    browser: Browser, ddp_database: Path, tensorboard_server: StartTensorBoard, locale: str
) -> None:
    with browser.new_context(locale=locale) as context:
        frame = open_page(context.new_page(), tensorboard_server(ddp_database.parent), in_tab=True)
        expect(frame.locator("ga-overview .cell")).to_have_count(8)
        check_sizes(frame)
