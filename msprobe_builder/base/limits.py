"""Every bound on what the builder takes from outside; docs/design/reliability.md lists them."""

from __future__ import annotations

MIB = 1024 * 1024

LARGEST_JSON = 4096 * MIB  # bytes of construct.json or stack.json, which are read as a whole
LARGEST_TEXT_FILE = 64 * MIB  # bytes of compare.json, a layer mapping or a match file
LARGEST_VALUE = 256 * MIB  # bytes of one value or row of a database
LARGEST_REFERENCE_TEXT = 64 * MIB  # characters of a JSON cell of an imported database
LONGEST_STACK_LINE = 20_000  # characters that are taken apart; a longer line is shown as it is
DEEPEST_VALUE = 400  # lists and objects inside each other in a record
HIGHEST_NUMBER = 2**31 - 1  # of a step, rank or micro-step
