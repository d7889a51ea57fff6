"""How a suspect is called that stands at a node, and what a step and rank without its own says."""

BEFORE = "what runs before"
FALLEN = "What differs here came from another rank or step."


def standing_at(name: str, *, is_unrecorded: bool) -> str:
    """The node, or what runs before it: there a fault lies that nobody recorded."""
    return f"{BEFORE} {name}" if is_unrecorded else name
