"""What is known of a suspect by its name alone, and what a step and rank without its own says."""

BEFORE = "what runs before"
FALLEN = "What differs here came from another rank or step."
# What takes a rank's parts of parameters from outside, to put those of all ranks together.
GATHERING = "Torch.fsdp_all_gather"


def standing_at(name: str, *, is_unrecorded: bool) -> str:
    """The node, or what runs before it: there a fault lies that nobody recorded."""
    return f"{BEFORE} {name}" if is_unrecorded else name
