"""What a user should know of the rules of a layer mapping file: unused, ambiguous, reversed."""

from __future__ import annotations

import difflib
from collections import defaultdict

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.match.mapping import Layers, Mapped
from msprobe_builder.match.path_tree import PathTree
from msprobe_builder.match.places import Path
from msprobe_builder.match.rules import TOP_LAYER, Rule, Rules
from msprobe_builder.match.translate import translate


def report_rules(rules: Rules, mapped: Mapped) -> list[Diagnostic]:
    """Diagnostics on the rules of one file, each with its line."""
    npu, bench = mapped.npu, mapped.bench
    reached: dict[int, set[Path]] = defaultdict(set)
    for translation in mapped.translations.values():
        for path, number in translation.applied:
            reached[number].add(path)
    if not rules.rules:
        message = fact("note.mapping_empty", file=str(rules.file))
        return [Diagnostic("warning", "mapping_empty", message, str(rules.file))]
    known = PathTree(bench.paths())
    leading = {number for number, paths in reached.items() if any(path in known for path in paths)}
    failing = set(range(len(rules.rules))) - leading
    told = _reversed(rules, mapped, leading, is_any_reached=bool(reached)) if failing else []
    if told:
        return told
    found = []
    for number, rule in enumerate(rules.rules):
        if number not in reached:
            found.append(_about_rule(rules, rule, "mapping_rule_unused", _why_unused(rule, npu)))
        elif number in failing:
            target = ".".join(min(reached[number]))
            problem = fact("mapping_problem.no_target", path=target)
            found.append(_about_rule(rules, rule, "mapping_rule_without_target", problem))
    return found + _clashes(rules, mapped)


def _reversed(
    rules: Rules, mapped: Mapped, fit_here: set[int], *, is_any_reached: bool
) -> list[Diagnostic]:
    """One hint where more of the rules fit the other way round, all those among them that do not.

    ``fit_here`` are the rules that lead from npu to bench.
    """
    known = PathTree(mapped.npu.paths())
    fitting, leading = set(), set()
    for one in translate(mapped.bench.paths(), mapped.bench.classes, rules.rules).values():
        for path, number in one.applied:
            fitting.add(number)
            if path in known:
                leading.add(number)
    count = len(rules.rules)
    failing = set(range(count)) - fit_here
    is_better = failing <= leading and len(leading) > len(fit_here)
    if not (is_better if is_any_reached else fitting):
        return []
    file = str(rules.file)
    if is_any_reached:
        said = fact("note.mapping_reversed", file=file, failing=len(failing), count=count)
    else:
        said = fact("note.mapping_all_reversed", file=file, fitting=len(fitting))
    return [Diagnostic("warning", "mapping_reversed", said, file)]


def _why_unused(rule: Rule, npu: Layers) -> Fact:
    names = set().union(*npu.classes.values(), {TOP_LAYER})
    if rule.owner in names:
        return fact("mapping_problem.not_below", owner=rule.owner, path=".".join(rule.npu))
    near = difflib.get_close_matches(rule.owner, names, n=1)
    nearest = fact("mapping_problem.nearest", name=near[0]) if near else None
    return fact("mapping_problem.no_class", owner=rule.owner, nearest=nearest)


def _clashes(rules: Rules, mapped: Mapped) -> list[Diagnostic]:
    """One diagnostic per set of rules that leads two layers to one place."""
    groups: dict[tuple[int, ...], dict[tuple[str, ...], None]] = defaultdict(dict)
    for clash in mapped.clashes:
        applied = [mapped.translations[path].applied for path in (clash.taken_by, clash.lost_by)]
        numbers = sorted({steps[-1][1] for steps in applied if steps})
        paths = clash.taken_by, clash.lost_by, clash.bench
        groups[tuple(numbers)][tuple(map(".".join, paths))] = None
    found = []
    for key, clashes in groups.items():
        lines = [rules.rules[number].line for number in key]
        first, second, target = next(iter(clashes))
        message = fact(
            "note.mapping_clash",
            file=str(rules.file),
            count=len(lines),
            lines=lines,
            first=first,
            second=second,
            target=target,
        )
        code = "mapping_rule_ambiguous"
        subject = str(rules.rules[key[0]]) if key else str(rules.file)
        found.append(Diagnostic("warning", code, message, subject, len(clashes)))
    return found


def _about_rule(rules: Rules, rule: Rule, code: str, problem: Fact) -> Diagnostic:
    message = fact("note.mapping_rule", file=str(rules.file), line=rule.line, problem=problem)
    return Diagnostic("warning", code, message, str(rule))
