"""What others have written: pinned, known by licence, running no script, asking nobody."""

from __future__ import annotations

import json
import re
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.conftest import REPOSITORY

LOCK = json.loads((REPOSITORY / "frontend_polymer" / "package-lock.json").read_text("utf-8"))
PACKAGE = json.loads((REPOSITORY / "frontend_polymer" / "package.json").read_text("utf-8"))
STATIC = REPOSITORY / "tb_graph_ascend" / "static"
DOCUMENT = (REPOSITORY / "docs" / "design" / "dependencies.md").read_text(encoding="utf-8")
# Addresses in the bundle: names of XML and of licences, nothing that is ever asked for anything.
KNOWN_HOSTS = {"www.w3.org", "polymer.github.io", "github.com"}
NETWORK = r"sendBeacon|XMLHttpRequest|WebSocket|EventSource|RTCPeerConnection|importScripts"
OURS = (
    *("msprobe_bisect", "msprobe_builder", "msprobe_checks", "msprobe_collector"),
    *("msprobe_operators", "tb_graph_ascend"),
)


def bundle() -> list[Path]:
    files = [path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".html")]
    assert files, 'run "make build" first'
    return files


def test_the_bundle_asks_nobody_but_its_own_server() -> None:
    for path in bundle():
        text = path.read_text(encoding="utf-8")
        hosts = set(re.findall(r"(?:https?:)?//([\w-]+(?:\.[\w-]+)+)", text))
        assert hosts <= KNOWN_HOSTS, path
        assert not re.findall(NETWORK, text), path


def test_the_bundle_makes_no_code_out_of_text() -> None:
    for path in bundle():
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"\beval\(|new Function\(|document\.write\(", text), path


def test_our_programs_open_no_connection() -> None:
    """None of the modules that reach over a network is imported."""
    reaching = (
        r"^\s*(?:import|from) (?:urllib\.request|http\.client|socket|requests|ftplib|smtplib)"
    )
    found = {
        path.relative_to(REPOSITORY).as_posix()
        for folder in OURS
        for path in (REPOSITORY / folder).rglob("*.py")
        if re.search(reaching, path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    # Both ask for this machine's own name and for nothing else.
    named = {"msprobe_builder/base/publish.py", "tb_graph_ascend/http/hosts.py"}
    assert found == named
    for name in named:
        used = set(re.findall(r"socket\.(\w+)", (REPOSITORY / name).read_text(encoding="utf-8")))
        assert used <= {"gethostname", "getfqdn"}


def test_every_npm_package_is_pinned_with_its_hash() -> None:
    for versions in (PACKAGE["dependencies"], PACKAGE["devDependencies"]):
        assert not [name for name, version in versions.items() if not re.match(r"\d", version)]
    packages = {name: one for name, one in LOCK["packages"].items() if name}
    assert len(packages) > 100
    assert not [name for name, one in packages.items() if "integrity" not in one]
    sources = {one.get("resolved", "https://registry.npmjs.org/") for one in packages.values()}
    assert {source.split("/")[2] for source in sources} == {"registry.npmjs.org"}


def test_no_npm_package_runs_a_script_when_it_is_installed() -> None:
    assert not [name for name, one in LOCK["packages"].items() if one.get("hasInstallScript")]
    settings = (REPOSITORY / "frontend_polymer" / ".npmrc").read_text(encoding="utf-8")
    assert "ignore-scripts=true" in settings.split()


def bundled_packages() -> set[str]:
    """What of npm gets into the bundle: the dependencies, and theirs."""
    packages = LOCK["packages"]
    waiting, found = list(PACKAGE["dependencies"]), set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += packages[f"node_modules/{name}"].get("dependencies", {})
    return found


def licences() -> dict[str, str]:
    table = DOCUMENT[DOCUMENT.index("## Licences") :]
    rows = re.findall(r"^\| ([\w@/.-]+) \| ([^|]+) \|$", table, re.MULTILINE)
    return {name: licence.strip() for name, licence in rows}


@pytest.mark.parametrize("name", sorted(bundled_packages()))
def test_the_licence_of_what_is_bundled_is_listed(name: str) -> None:
    assert licences()[name] == LOCK["packages"][f"node_modules/{name}"]["license"]


def requirements(extra: str) -> list[Requirement]:
    mine = distribution("msprobe-graph").requires or []
    found = [Requirement(one) for one in mine]
    return [
        one
        for one in found
        if (
            one.marker is None
            if not extra
            else one.marker and one.marker.evaluate({"extra": extra})
        )
    ]


@pytest.mark.parametrize("requirement", requirements(""), ids=str)
def test_what_users_get_is_pinned_by_a_range_and_known_by_licence(requirement: Requirement) -> None:
    assert [one for one in requirement.specifier if one.operator == ">="]
    assert licences()[requirement.name]


def test_development_is_locked() -> None:
    """Every package that the checks run with, at the version that they are known to pass with."""
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    locked = {Requirement(line).name for line in lines if line and not line.startswith("#")}
    direct = {one.name for extra in ("", "tables", "test", "dev") for one in requirements(extra)}
    assert direct - locked == {"msprobe-graph"}
