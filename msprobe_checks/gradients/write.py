"""A comparison of gradients as documented tables, pictures, one page and one sentence."""

from __future__ import annotations

import csv
import html
import io
import json
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.publish import written
from msprobe_builder.base.spreadsheet import harmless
from msprobe_builder.export.wrapped import line
from msprobe_builder.facts.fact import Fact, fact, plain
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_checks.gradients.file_names import plain_name
from msprobe_checks.gradients.similarity import (
    LARGEST_DROP,
    LOWEST_AT_FIRST,
    Alike,
    GradientComparison,
    RankSimilarity,
)
from msprobe_checks.one_sided import FIRST, SECOND, more_parameters, only_in

_SHOWN = 4


def summary_lines(comparison: GradientComparison) -> list[str]:
    """What was compared, and the first place where the runs part."""
    gradients = fact("checks.gradients", count=sum(len(one.parameters) for one in comparison.ranks))
    steps = len({step for rank in comparison.ranks for step in rank.steps})
    ranks = len(comparison.ranks)
    compared = fact("checks.compared", records=gradients, ranks=ranks, steps=steps)
    notes = list(comparison.notes)
    for rank in comparison.ranks:
        notes += only_in(rank.rank, FIRST, rank.only_first)
        notes += only_in(rank.rank, SECOND, rank.only_second)
    lines = [line(fact("label.compared"), compared)]
    lines += [line(fact("label.note"), note) for note in notes]
    lines.append(line(fact("label.verdict"), _verdict(comparison)))
    later = [one for one in comparison.breaks[1:] if one.rank != comparison.breaks[0].rank]
    for one in later[:_SHOWN]:
        part = fact("gradients.later", rank=one.rank, step=one.step, name=one.worst, why=one.why)
        lines.append(line("", part))
    return lines


def _verdict(comparison: GradientComparison) -> Fact:
    """Where the runs part first, if they do."""
    missing = _without_gradients(comparison)
    if not comparison.breaks:
        counts = [one.counts() for one in comparison.ranks]
        count, bad, untold = (sum(one) for one in zip(*counts, strict=True))
        clauses = [] if missing is None else [missing]
        if bad:
            clauses.append(fact("gradients.bad", bad=bad))
        if bad + untold == count:
            before = fact("gradients.missing", missing=clauses) if clauses else None
            code = "gradients.norms_agree" if untold else "gradients.nothing_compared"
            return fact(code, count=untold or count, missing=before)
        if untold:
            clauses.append(fact("gradients.untold", untold=untold, count=count))
        but = fact("gradients.but", missing=clauses) if clauses else None
        return fact("gradients.agree", count=count - untold - bad, but=but)
    first = comparison.breaks[0]
    others = len(first.names) - 1
    return fact(
        "gradients.part",
        missing=None if missing is None else fact("gradients.missing", missing=[missing]),
        step=first.step,
        rank=first.rank,
        name=first.worst,
        why=first.why,
        more=fact("gradients.more", count=others) if others else None,
    )


def _without_gradients(comparison: GradientComparison) -> Fact | None:
    """Which record lacks parameters of the other; where both lack some, their names differ."""
    for rank in comparison.ranks:
        if bool(rank.only_first) != bool(rank.only_second):
            which, names = (
                (SECOND, rank.only_first) if rank.only_first else (FIRST, rank.only_second)
            )
            more = more_parameters(len(names) - 1)
            return fact(
                "gradients.no_gradients", which=which, name=names[0], more=more, rank=rank.rank
            )
    return None


def write_all(comparison: GradientComparison, output: Path, plots: bool) -> None:
    """Write ``rank*/similarities.csv``, ``gradients.json`` and ``gradients.html``."""
    for rank in comparison.ranks:
        directory = output / f"rank{rank.rank}"
        with written(directory / "similarities.csv") as stream:
            stream.write(_csv(rank).encode("utf-8"))
        if plots:
            _plot(rank, directory / "similarities_picture")
    with written(output / "gradients.json") as stream:
        stream.write(json.dumps(as_json(comparison), indent=1).encode("utf-8"))
    with written(output / "gradients.html") as stream:
        stream.write(page(comparison).encode("utf-8"))


def _csv(rank: RankSimilarity) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["step", *rank.steps])
    for name, found in rank.parameters.items():
        cells = [found[step].same if step in found else "" for step in rank.steps]
        writer.writerow([harmless(name), *("" if cell is None else cell for cell in cells)])
    summary = [rank.summary(step) for step in rank.steps]
    writer.writerow(["summary", *("" if cell is None else cell for cell in summary)])
    return text.getvalue()


def as_json(comparison: GradientComparison) -> dict[str, Any]:
    """Everything that was measured, and the breaks in order."""
    return {
        "limits": {"lowest_at_first_step": LOWEST_AT_FIRST, "largest_drop": LARGEST_DROP},
        "notes": [tell(note, ENGLISH) for note in comparison.notes],
        "breaks": [
            {
                "rank": one.rank,
                "step": one.step,
                "parameter": one.worst,
                "why": tell(one.why, ENGLISH),
                "facts": plain([one.why]),
                "parameters": list(one.names),
            }
            for one in comparison.breaks
        ],
        "ranks": {
            str(rank.rank): {
                name: {str(step): _one_json(alike) for step, alike in found.items()}
                for name, found in rank.parameters.items()
            }
            for rank in comparison.ranks
        },
    }


def _one_json(alike: Alike) -> dict[str, Any]:
    values = {
        "similarity": alike.same,
        "corrected": alike.corrected,
        "norm_ratio": alike.ratio,
        "cosine": alike.cosine,
    }
    return {
        key: value if value is None or abs(value) < float("inf") else str(value)
        for key, value in values.items()
    }


_STYLE = """
:root { color-scheme: light dark }
body { font: 14px system-ui, "Noto Sans CJK SC", "Microsoft YaHei", sans-serif; margin: 2em }
div { overflow: auto; max-height: 80vh }
table { border-collapse: collapse } td, th { padding: 0 2px; white-space: nowrap }
th { text-align: left; font-weight: normal; position: sticky; left: 0; background: Canvas }
td { min-width: 14px; height: 14px; border: 1px solid Canvas }
"""


def page(comparison: GradientComparison) -> str:
    """All parameters by steps as heat maps, in one file without scripts."""
    lines = "".join(f"<p>{html.escape(one)}</p>" for one in summary_lines(comparison))
    maps = "".join(_heat_map(rank) for rank in comparison.ranks)
    title = html.escape(tell(fact("gradients.title")))
    legend = html.escape(tell(fact("gradients.legend")))
    return (
        f'<!doctype html><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1>{lines}<p>{legend}</p>{maps}"
    )


def _heat_map(rank: RankSimilarity) -> str:
    head = "".join(f"<td>{step if step % 10 == 0 else ''}</td>" for step in rank.steps)
    rows = []
    for name, found in rank.parameters.items():
        cells = "".join(_cell(step, found.get(step)) for step in rank.steps)
        rows.append(f"<tr><th>{html.escape(name)}</th>{cells}</tr>")
    return (
        f"<h2>rank {rank.rank}</h2><div><table><tr><th>step</th>{head}</tr>"
        f"{''.join(rows)}</table></div>"
    )


def _cell(step: int, alike: Alike | None) -> str:
    if alike is None:
        return "<td></td>"
    apart = min(1.0, 2 * (1 - alike.same)) if alike.same is not None else 0.0
    apart = max(apart, min(1.0, abs(alike.ratio - 1)) if alike.ratio == alike.ratio else 1.0)
    share = None if alike.same is None else f"{alike.same:.2%}"
    signs = None if share is None else fact("gradients.cell_signs", share=share)
    said = fact("gradients.cell", step=step, ratio=alike.ratio, signs=signs)
    title = html.escape(tell(said))
    return (
        f'<td title="{title}" style="background:rgb(255 {255 - int(200 * apart)} '
        f'{255 - int(225 * apart)})"></td>'
    )


def _plot(rank: RankSimilarity, directory: Path) -> None:
    """A picture for each parameter and one for all of them."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BuildError("Pictures are drawn with matplotlib; pip install matplotlib.") from error
    curves = {
        name: [found[step].same if step in found else None for step in rank.steps]
        for name, found in rank.parameters.items()
    }
    curves["summary"] = [rank.summary(step) for step in rank.steps]
    share = tell(fact("gradients.share"), ENGLISH)  # few fonts have Chinese
    for name, values in curves.items():
        figure = Figure(figsize=(6, 3), layout="constrained")
        axes = figure.subplots()
        axes.plot(list(rank.steps), [float("nan") if v is None else v for v in values], marker=".")
        axes.set(title=name, xlabel="step", ylabel=share, ylim=(0, 1.02))
        with written(directory / f"{plain_name(name)}_similarities.png") as stream:
            figure.savefig(stream, format="png")
