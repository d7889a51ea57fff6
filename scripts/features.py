"""Write docs/design/features.md of features.tsv: what there is, and which test shows it."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

DESIGN = Path(__file__).resolve().parent.parent / "docs" / "design"
_HEAD = """# Features

Made of `features.tsv` by `scripts/features.py`. Empty: not there. *Ascend*: on Ascend
hardware alone. What differs from msprobe 8.3.3: [differences](differences.md).

"""


def rows() -> list[dict[str, str]]:
    """The features, each with its guide and its test."""
    with (DESIGN / "features.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def page() -> str:
    """The document."""
    lines = ["| feature | guide | 8.3.3 | 26.2.0 | here | test |", "|---|---|---|---|---|---|"]
    for row in rows():
        guide = row["guide"]
        path, _, test = row["test"].partition("::")
        cells = [
            row["feature"],
            f"[{guide.removesuffix('.md')}](../{guide})",
            *(row[one] for one in ("8.3.3", "26.2.0", "here")),
            f"[{test}](../../{path})",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return _HEAD + "\n".join(lines) + "\n"


def main() -> int:
    """Write the document."""
    (DESIGN / "features.md").write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
