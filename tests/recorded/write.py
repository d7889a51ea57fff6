"""Write a recorded case: ``make case NAME=verdict/bags DUMPS="npu bench" WHY="…"``.

Only what judging reads is kept of the dumps, with the paths in stacks cut short; steps and ranks
that change no fact are left out. The case gets the facts that hold *now*: whoever adds it has to
confirm that they are right.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.recorded.case import FOLDER, RecordedCase
from tests.recorded.judge import database_of, facts_of

WRITTEN = ("conclusion", "first")
_NOT_WRITTEN = ("direction", "said")  # the name of the node says it, and the cause most of it
_READ = ("dump.json", "construct.json", "stack.json", "sketch.bin", "flow.bin")
_PATH = re.compile(r"File (/[^,\n]+),")


def main() -> None:
    """Write the case that the arguments describe, and say what is to be confirmed."""
    parser = argparse.ArgumentParser(description=__doc__, prog="make case")
    parser.add_argument("name", help="AREA/NAME of the new file")
    parser.add_argument(
        "dumps", nargs="+", type=Path, help="of npu, and perhaps of bench and noise"
    )
    parser.add_argument(
        "--why", required=True, help="what is compared, and what a person concludes"
    )
    parser.add_argument("--archive", help="NAME of an archive of the area that is there already")
    parser.add_argument("--options", default="", help="further options of msprobe-build")
    given = parser.parse_args()
    if (FOLDER / f"{given.name}.yaml").exists():
        sys.exit(f"tests/recorded/{given.name}.yaml exists already; give the case another name.")
    for path in given.dumps:
        if not path.is_dir():
            sys.exit(f"{path} is no folder with a dump; name the folder of a rank, step or run.")
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "kept"
        sides = dict(zip(("npu", "bench", "noise"), given.dumps, strict=False))
        options = tuple(given.options.split())
        case = shrunk(given.name, given.why, sides, kept, options)
        archive = given.archive or Path(given.name).name
        add_to_archive(FOLDER / Path(given.name).parent / f"{archive}.tar.xz", kept)
        path = write_case(case, f"{archive}.tar.xz")
    print(path.read_text(encoding="utf-8"))
    print(
        f"Written to {path}. These facts hold now; confirm that each is right, correct those that\n"
        "are not (the test then fails until the code is), and drop those that nobody promises."
    )


def shrunk(
    name: str, why: str, sides: Mapping[str, Path], kept: Path, options: tuple[str, ...] = ()
) -> RecordedCase:
    """The case with its facts; of the dumps ``kept`` gets what they follow from."""
    inside = Path(name).name

    def attempt(places: set[Path] | None) -> RecordedCase:
        shutil.rmtree(kept / inside, ignore_errors=True)
        for side, dump in sides.items():
            copy(dump, kept / inside / side, places)
        folders = {"bench": None} | {side: f"{inside}/{side}" for side in sides}
        case = RecordedCase(name, why, {}, "unwritten", options=options, **folders)  # type: ignore[arg-type]
        with tempfile.TemporaryDirectory() as folder:
            facts = facts_of(database_of(case, kept, Path(folder)), WRITTEN)
        return RecordedCase(
            name,
            why,
            without_defaults(facts),
            "unwritten",
            options=options,
            **folders,  # type: ignore[arg-type]
        )

    whole = attempt(None)
    if len(sides) == 1:  # whose ranks are held against each other
        return whole
    places = sorted({one.relative_to(dump) for dump in sides.values() for one in ranks(dump)})
    for place in places if len(places) > 1 else []:
        few = attempt({place})
        if few.facts == whole.facts:
            return few
    return attempt(None) if len(places) > 1 else whole


def ranks(dump: Path) -> Iterator[Path]:
    """The folders of ranks below one of a dump."""
    return (one.parent for one in dump.rglob("dump.json"))


def copy(dump: Path, to: Path, places: set[Path] | None) -> None:
    """What judging reads of a dump, or of some of its ranks."""
    for folder in ranks(dump):
        place = folder.relative_to(dump)
        if places is not None and place not in places:
            continue
        (to / place).mkdir(parents=True, exist_ok=True)
        for file in _READ:
            if (folder / file).exists():
                content = (folder / file).read_bytes()
                if file == "stack.json":
                    content = _PATH.sub(_short, content.decode()).encode()
                (to / place / file).write_bytes(content)
        if (folder / "dump_tensor_data").exists():
            shutil.copytree(folder / "dump_tensor_data", to / place / "dump_tensor_data")


def _short(frame: re.Match[str]) -> str:
    """A line of a stack with the path from where packages are installed, or the last folder."""
    path = frame[1]
    _, installed, inside = path.rpartition("site-packages/")
    short = installed + inside if installed else "/".join(path.split("/")[-2:])
    return f"File {short},"


def without_defaults(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts without what is the same of nearly all suspects."""
    first = facts["first"]
    if first is not None:
        usual = {"step": 0, "rank": 0, "ranks": [], "source": None, "direction": None}
        first = {key: one for key, one in first.items() if usual.get(key, ()) != one}
        first = {key: one for key, one in first.items() if key not in _NOT_WRITTEN}
    return {**facts, "first": first}


def write_case(case: RecordedCase, dumps: str) -> Path:
    """Write the file of a case whose dumps lie in the archive ``dumps``."""
    content: dict[str, Any] = {"why": case.why, "dumps": dumps}
    content |= {side: getattr(case, side) for side in ("npu", "bench", "noise")}
    content |= {"compare": dict(case.compare), "options": list(case.options)}
    content = {key: one for key, one in content.items() if one or key == "bench"}
    content["facts"] = dict(case.facts)
    path = FOLDER / f"{case.name}.yaml"
    path.parent.mkdir(exist_ok=True)
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
    path.write_text(text, encoding="utf-8")
    return path


def add_to_archive(archive: Path, folder: Path) -> None:
    """Pack what lies in a folder, together with what the archive holds already."""
    archive.parent.mkdir(exist_ok=True)
    if archive.exists():
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
    # Alike files one after another, so that they are packed as one; no times, no owners.
    files = sorted((path for path in folder.rglob("*") if path.is_file()), key=_alike)
    with tarfile.open(archive, "w:xz", preset=9) as opened:
        for path in files:
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as content:
                opened.addfile(entry, content)


def _alike(path: Path) -> tuple[str, str]:
    return path.name, path.as_posix()


if __name__ == "__main__":
    main()
