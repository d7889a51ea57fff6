"""How a suspect is called that stands at a node."""

BEFORE = "what runs before"


def standing_at(name: str, *, is_unrecorded: bool) -> str:
    """The node, or what runs before it: there a fault lies that nobody recorded."""
    return f"{BEFORE} {name}" if is_unrecorded else name
