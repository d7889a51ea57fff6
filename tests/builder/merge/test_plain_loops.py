"""Where loops over parameters begin and end, told one call after the other."""

from __future__ import annotations

from random import Random

from hypothesis import given

from msprobe_builder.merge.join.parameter_loops import Order, Owner, _loops
from tests.small_graphs import RANDOMS

STEMS = ("Torch.mul_", "Torch.add_", "Torch.sqrt", "Torch.norm")


def goes_on(order: Order, one: Owner, other: Owner) -> bool:
    """Chunk by chunk and place by place, forwards or backwards; no vector follows a matrix."""
    places = [(each.chunk, each.place) for each in (one, other)]
    in_order = places[0] >= places[1] if order.is_reverse else places[0] <= places[1]
    return in_order and not (order.is_sorted and one.is_matrix and not other.is_matrix)


@given(RANDOMS)
def test_a_loop_ends_where_its_order_starts_again(random: Random) -> None:
    owners = [
        Owner(chunk, place, f"layer{place}", 8.0, random.random() < 0.5)
        for chunk in (0, 1)
        for place in range(2)
    ]
    count = random.randint(1, 12)
    stems = random.choices(STEMS, k=count)
    owner = {place: random.choice(owners) for place in range(count) if random.random() < 0.7}
    order = Order(random.random() < 0.5, random.random() < 0.5)
    loops: list[list[int]] = []
    for place, one in owner.items():
        known = [owner[other] for other in loops[-1]] if loops else []
        starts = not known or not goes_on(order, known[-1], one)
        if starts or (one in known and one != known[-1]):
            loops.append([])
        loops[-1].append(place)
    expected = []
    for number, loop in enumerate(loops):
        before = loops[number - 1][-1] + 1 if number else 0
        after = loops[number + 1][0] if number + 1 < len(loops) else count
        around = {*stems[before : loop[0]], *stems[loop[-1] + 1 : after]}
        is_of_several = len({owner[place] for place in loop}) > 1
        if is_of_several or not around & {stems[place] for place in loop}:
            expected.append(loop)
    assert _loops(stems, owner, order) == expected
