"""What a verdict weighs, by name: where something is off, and why that may be no fault."""

from __future__ import annotations

# Of clues: the members of Cause, see verdict/findings.py.
CLUES = (
    *("output", "missing", "extra", "wiring", "between", "external", "argument", "gradient"),
    *("random", "rank", "weight", "weights", "number", "order", "unrecorded", "part", "update"),
)
# What explains a clue as no fault, and takes it away or makes it a doubt.
EXPLANATIONS = (
    *("unkept", "habit", "mispaired", "formula", "inside", "no_gradient", "meets_again"),
    *("exchanged", "split", "loss_scale", "fewer_digits"),
    *("passes", "chosen", "unknown", "sum_of_uses", "places", "merged"),
)
KINDS = (*CLUES, *EXPLANATIONS)
