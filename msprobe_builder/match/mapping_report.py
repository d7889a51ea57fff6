"""What a user should know of the rules of a layer mapping file: unused, ambiguous, reversed."""

from __future__ import annotations

import difflib
from collections import defaultdict

from msprobe_builder.base.diagnostics import Diagnostic
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
    if rules.rules and not reached:
        reverse = translate(bench.paths(), bench.classes, rules.rules).values()
        fitting = {number for one in reverse for _, number in one.applied}
        if fitting:
            message = (
                f"{rules.file}: none of its rules fits npu to bench, but {len(fitting)} would fit "
                "bench to npu; swap npu_path and bench_path in compare.json, or the two sides of "
                "each rule."
            )
            return [Diagnostic("warning", "mapping_reversed", message, str(rules.file))]
    known = PathTree(bench.paths())
    found = []
    for number, rule in enumerate(rules.rules):
        if number not in reached:
            found.append(_about_rule(rules, rule, "mapping_rule_unused", _why_unused(rule, npu)))
        elif not any(path in known for path in reached[number]):
            problem = f"it leads to '{'.'.join(min(reached[number]))}', which bench does not have"
            found.append(_about_rule(rules, rule, "mapping_rule_without_target", problem))
    return found + _clashes(rules, mapped)


def _why_unused(rule: Rule, npu: Layers) -> str:
    names = set().union(*npu.classes.values(), {TOP_LAYER})
    if rule.owner in names:
        return f"no module of class '{rule.owner}' has '{'.'.join(rule.npu)}' below it in npu"
    near = difflib.get_close_matches(rule.owner, names, n=1)
    hint = f" (the nearest is '{near[0]}')" if near else ""
    return f"npu has no module of class '{rule.owner}'{hint}"


def _clashes(rules: Rules, mapped: Mapped) -> list[Diagnostic]:
    """One diagnostic per set of rules that leads two layers to one place."""
    groups: dict[tuple[int, ...], dict[str, None]] = defaultdict(dict)
    for clash in mapped.clashes:
        applied = [mapped.translations[path].applied for path in (clash.taken_by, clash.lost_by)]
        numbers = sorted({steps[-1][1] for steps in applied if steps})
        text = " and ".join(f"'{'.'.join(path)}'" for path in (clash.taken_by, clash.lost_by))
        groups[tuple(numbers)][f"{text} both lead to '{'.'.join(clash.bench)}'"] = None
    found = []
    for key, texts in groups.items():
        lines = [str(rules.rules[number].line) for number in key]
        where = f"line {lines[0]}" if len(lines) == 1 else f"lines {' and '.join(lines)}"
        message = (
            f"{rules.file}, {where}: {next(iter(texts))}; the first was matched, the other is left."
        )
        code = "mapping_rule_ambiguous"
        subject = str(rules.rules[key[0]]) if key else str(rules.file)
        found.append(Diagnostic("warning", code, message, subject, len(texts)))
    return found


def _about_rule(rules: Rules, rule: Rule, code: str, problem: str) -> Diagnostic:
    message = f"{rules.file}, line {rule.line}: {problem}."
    return Diagnostic("warning", code, message, str(rule))
