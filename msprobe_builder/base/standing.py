"""What is known of a suspect by its name alone."""

from __future__ import annotations

# What takes a rank's parts of parameters from outside, to put those of all ranks together.
GATHERING = "Torch.fsdp_all_gather"
