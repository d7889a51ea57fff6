"""The report to download is the one that the command writes."""

from __future__ import annotations

from pathlib import Path

from msprobe_builder.command.main import main
from tests.plugin.conftest import Ask, client_of


def test_it_is_what_the_command_writes(demo_database: Path, tmp_path: Path) -> None:
    response = client_of(demo_database.parent)("report", file=demo_database.name)
    assert response.status_code == 200
    assert response.headers["Content-Disposition"] == 'attachment; filename="report.html"'
    assert response.headers["Cache-Control"] == "no-store"
    written = tmp_path / "report.html"
    assert main(["report", str(demo_database), "-o", str(written)]) == 0
    assert response.get_data() == written.read_bytes()
    response = client_of(demo_database.parent)("report", file=demo_database.name, language="zh")
    assert main(["report", str(demo_database), "-o", str(written), "--language", "zh"]) == 0
    assert response.get_data() == written.read_bytes()


def test_other_files_and_methods_are_refused(ask: Ask) -> None:
    assert ask("report", file="none.vis.db").status_code == 404
    assert ask("report", file="runs/example.vis.db", method="POST").status_code == 405
    assert ask("report", file="runs/example.vis.db", language="klingon").status_code == 400
