"""Ask axe-core what is wrong with what the viewer shows."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Frame

from tests.conftest import REPOSITORY

AXE = REPOSITORY / "frontend_polymer" / "node_modules" / "axe-core" / "axe.min.js"
GRAVE = ("serious", "critical")


def grave_faults(frame: Frame) -> list[str]:
    """What axe-core calls serious or critical, one line per element."""
    # Evaluated by the debugger, which the page's Content-Security-Policy does not bind.
    if not frame.evaluate("'axe' in window"):
        frame.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = frame.evaluate(
        "axe.run(document, { resultTypes: ['violations'] }).then((result) => result.violations)"
    )
    return [
        f"{fault['impact']} {fault['id']}: {node['target']} {node['html'][:120]} "
        f"{' '.join(node['failureSummary'].split())[:300]}"
        for fault in found
        if fault["impact"] in GRAVE
        for node in fault["nodes"]
    ]
