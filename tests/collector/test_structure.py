"""What does not depend on torch stays free of it, for recorders of other frameworks."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_TORCH = """
    config.settings config.selector record.session write.step_files
""".split()


def test_configuration_naming_and_files_need_no_torch() -> None:
    names = ", ".join(f"msprobe_collector.{name}" for name in WITHOUT_TORCH)
    answer = subprocess.run(
        [sys.executable, "-c", f"import sys, {names}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "torch" not in answer.stdout.split()
