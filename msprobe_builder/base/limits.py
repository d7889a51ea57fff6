"""Every bound on what the builder takes from outside; docs/design/reliability.md lists them."""

from __future__ import annotations

MIB = 1024 * 1024

LARGEST_JSON = 4096 * MIB  # bytes of construct.json or stack.json, which are read as a whole
LARGEST_TEXT_FILE = 64 * MIB  # bytes of compare.json, a layer mapping or a match file
LARGEST_VALUE = 256 * MIB  # bytes of one value or row of a database
LARGEST_REFERENCE_TEXT = 64 * MIB  # characters of a JSON cell of an imported database
LONGEST_STACK_LINE = 20_000  # characters that are taken apart; a longer line is shown as it is
DEEPEST_VALUE = 400  # lists and objects inside each other in a record
CALL_SECONDS = 600  # of one recorded or saved call that is run again, in a process of its own
CALL_MEMORY = 16 * 1024 * MIB  # bytes that this process may take beyond what it starts with
DEEPEST_CALL = 32  # lists and objects inside each other in the arguments of a saved call
MOST_OPERANDS = 100_000  # values in the arguments of a saved call, each time that one is named
HIGHEST_NUMBER = 2**31 - 1  # of a step, rank or micro-step
