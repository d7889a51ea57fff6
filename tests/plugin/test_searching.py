"""Searches of small random graphs, against each node looked at alone."""

from __future__ import annotations

import re
from random import Random

from hypothesis import given

from msprobe_builder.base.codes import Kind, Section
from msprobe_builder.database.read.fitting import SEPARATOR
from msprobe_builder.database.read.search import EXECUTION, SEVERITY, Search, search
from tests.small_graphs import RANDOMS, REASONS, Node, Pair, random_pair, written

SECTIONS = {
    "dtype": tuple(Section),
    "input_dtype": (Section.INPUT, Section.PARAMETERS),
    "output_dtype": (Section.OUTPUT, Section.PARAMETERS_GRAD),
    "shape": tuple(Section),
}
TEXTS = {
    "operator": ("add", "ADD", "torch.add", "net", "dd"),
    "dtype": ("float32", "torch.float32", "Float16", "float"),
    "input_dtype": ("float32", "Float16"),
    "output_dtype": ("float32", "Float16"),
    "shape": ("[2,3]", "2, 3", "[ 2 ]", "3"),
    "below": ("a", "Module.a", "module.A.net", "a.b", "a.Net", "b", "other", "DefaultModel"),
}
NAMES = ("ADD", "net.forward", ".1", "a.b", "forward", "Apis", "nothing", "2.for", "")
WORDS = ("add net", "net .1", "forward A.B", "module.a add.1", "a.net 0", "b other", "add  nothing")
EXPRESSIONS = (r"\.1$", r"net.*\d", r"^torch\.\w+\.1", r"[02]\.forward", r"Modules\.0$", r"\D1\b")


def found_by(pattern: str, names: str) -> list[int]:
    expression = re.compile(pattern, re.IGNORECASE)
    return [at for at, name in enumerate(names.split(SEPARATOR)) if expression.search(name)]


def random_search(random: Random) -> Search:
    def perhaps(*choices: object, often: float = 0.2) -> object:
        return random.choice(choices) if random.random() < often else None

    def some(choices: range | tuple[str, ...]) -> tuple[object, ...]:
        return tuple(random.sample(choices, 2)) if random.random() < 0.15 else ()

    is_expression = random.random() < 0.3
    texts = {key: perhaps(*values, often=0.12) for key, values in TEXTS.items()}
    return Search(
        name=random.choice(EXPRESSIONS if is_expression else NAMES + WORDS),
        regex=is_expression,
        texts={key: str(value) for key, value in texts.items() if value is not None},
        direction=perhaps(0, 1, 2),  # type: ignore[arg-type]
        grades=some(range(7)),  # type: ignore[arg-type]
        overflows=some(range(1, 4)),  # type: ignore[arg-type]
        reasons=some(REASONS),  # type: ignore[arg-type]
        sources=some(range(6)),  # type: ignore[arg-type]
        side=perhaps(0, 1),  # type: ignore[arg-type]
        rank=perhaps(0, 1, 2),  # type: ignore[arg-type]
        order=random.choice((EXECUTION, SEVERITY)),
        offset=random.choice((0, 0, 2)),
        limit=random.choice((3, 200)),
    )


def fits(wanted: Search, pair: Pair, side: int, node: Node) -> bool:
    source = source_of(pair, side, node)
    is_named = has_words(wanted.name, node.name, module_of(pair.sides[side], node))
    if wanted.regex:
        is_named = re.search(wanted.name, node.name, re.IGNORECASE) is not None
    return (
        is_named
        and wanted.direction in (None, node.direction)
        and (not wanted.grades or node.grade in wanted.grades)
        and (not wanted.overflows or node.overflow in wanted.overflows)
        and (not wanted.reasons or pair.reasons.get(node.node) in wanted.reasons)
        and (not wanted.sources or source in wanted.sources)
        and wanted.side in (None, side)
        and wanted.rank in (None, pair.rank)
        and all(
            fits_text(
                key,
                value.lower() if key in ("operator", "below") else value,
                pair.sides[side],
                node,
            )
            for key, value in wanted.texts.items()
        )
    )


def has_words(text: str, name: str, module: str) -> bool:
    """Whether a name has a word, or has one of several and the module around it the others."""
    words = text.split()
    if len(words) < 2:
        return text.lower() in name.lower()
    whole = [re.escape(word) + (r"(?!\d)" if word[-1].isdigit() else "") for word in words]
    own = [re.search(word, name, re.IGNORECASE) is not None for word in whole]
    around = [re.search(word, module, re.IGNORECASE) is not None for word in whole]
    return any(own) and all(map(any, zip(own, around, strict=True)))


def fits_text(key: str, value: str, nodes: dict[int, Node], node: Node) -> bool:
    if key == "operator":
        return f".{node.stem}".lower().endswith(f".{value}".lower())
    if key == "below":
        path = value.lower().removeprefix("module.")
        around = (one for one in nodes.values() if one.node <= node.node <= one.end)
        return any(path in paths_of(one) for one in around if one.kind == Kind.MODULE)
    plain = value.replace(" ", "")
    texts = [
        one.shape if key == "shape" else one.dtype
        for one in node.parameters
        if one.section in SECTIONS[key]
    ]
    spellings = (plain, f"torch.{plain}", f"[{plain}]")
    return any(text is not None and text.replace(" ", "") in spellings for text in texts)


def paths_of(module: Node) -> tuple[str, str]:
    """A path may leave out the class, in which the name of a module ends."""
    name = module.stem.lower().removeprefix("module.")
    return name, name.rpartition(".")[0]


def source_of(pair: Pair, side: int, node: Node) -> int | None:
    npu = node.node if side == 0 else pair.partners(1).get(node.node)
    return None if npu is None else pair.sources.get(npu)


def module_of(nodes: dict[int, Node], node: Node) -> str:
    """The name of the module around a node, beyond a collection of calls."""
    if node.parent is None:
        return ""
    above = nodes[node.parent]
    if above.kind != Kind.MODULE:
        assert above.parent is not None
        above = nodes[above.parent]
    return above.stem


@given(RANDOMS)
def test_a_search_finds_the_nodes_that_fit_and_tells_what_is_known_of_them(random: Random) -> None:
    pairs = [random_pair(random, rank) for rank in range(random.randint(1, 2))]
    with written(pairs) as connection:
        for _ in range(8):
            wanted = random_search(random)
            hits, total = search(connection, wanted, found_by)
            expected = [
                (pair, side, node)
                for pair in pairs
                for side in (0, 1)
                for node in pair.sides[side].values()
                if fits(wanted, pair, side, node)
            ]
            if wanted.order == SEVERITY:
                expected.sort(key=severity)
            assert total == len(expected)
            page = expected[wanted.offset : wanted.offset + wanted.limit]
            for hit, (pair, side, node) in zip(hits, page, strict=True):
                nodes = pair.sides[side]
                assert (hit.step, hit.rank, hit.side) == (0, pair.rank, side)
                assert (hit.index, hit.name) == (node.node - min(nodes), node.name)
                assert (hit.grade, hit.error) == (node.grade, node.error)
                assert hit.overflow == (node.overflow or 0)
                assert hit.unmatched_reason == pair.reasons.get(node.node, "")
                assert hit.module == module_of(nodes, node)
                assert hit.source == source_of(pair, side, node)


def severity(found: tuple[Pair, int, Node]) -> tuple[object, ...]:
    """The worst first, what is unmatched last; else in order of execution."""
    _, _, node = found
    return node.grade == 6, -node.grade, -1.0 * (-1 if node.error is None else node.error)
