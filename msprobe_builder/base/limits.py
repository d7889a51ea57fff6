"""Every bound on what the builder takes from outside; docs/design/reliability.md lists them."""

from __future__ import annotations

MIB = 1024 * 1024

LARGEST_JSON = 4096 * MIB  # bytes of construct.json or stack.json, which are read as a whole
LARGEST_TEXT_FILE = 64 * MIB  # bytes of compare.json, a layer mapping or a match file
MOST_ENTRIES = 100_000  # files in a zip file
LEAST_UNPACKED = 8 * MIB  # bytes that any zip file may become
MOST_RATIO = 100  # how many times its own size a zip file may become beyond them
LARGEST_SETTINGS = 128 * MIB  # bytes that the zip file of a configuration may become
LARGEST_METADATA = 1024 * MIB  # bytes of the .metadata of a distributed checkpoint
MOST_CHUNKS = 32_768  # parts of one tensor of a distributed checkpoint
LARGEST_STORE_INDEX = 1024 * MIB  # bytes of the index of tensors in one file
LARGEST_UNPACKED = 256 * MIB  # bytes that a compressed .pt file may become
MOST_OPCODES = 50_000_000  # of a pickle: a checkpoint of a million parameters has half of them
LARGEST_KEY = 10_000  # parts of a tuple in a pickle, each time that one is named
MOST_VALUES = 1_000_000  # tensors and containers of a checkpoint, each time that one is named
DEEPEST_MAPPING = 50  # mappings and lists inside each other in a checkpoint
MOST_REPEATED = 1 << 24  # elements of a tensor that are fewer in its file
HIGHEST_EXPERT = 65_536  # experts of one layer
LARGEST_VALUE = 256 * MIB  # bytes of one value or row of a database
QUERY_MEMORY = 512 * MIB  # bytes that SQLite takes for the answer to SQL of a person's
LARGEST_ANSWER_VALUE = 16 * MIB  # bytes of one value or row of it
LARGEST_REFERENCE_TEXT = 64 * MIB  # characters of a JSON cell of an imported database
LONGEST_STACK_LINE = 20_000  # characters that are taken apart; a longer line is shown as it is
DEEPEST_VALUE = 400  # lists and objects inside each other in a record
CALL_SECONDS = 600  # of one recorded or saved call that is run again, in a process of its own
CHECK_SECONDS = 4 * 3600  # of all calls of a dump that are run again
CALL_MEMORY = 16 * 1024 * MIB  # bytes that this process may take beyond what it starts with
DEEPEST_CALL = 32  # lists and objects inside each other in the arguments of a saved call
MOST_OPERANDS = 100_000  # values in the arguments of a saved call, each time that one is named
MOST_MICRO_STEPS = 1 << 16  # of one step
HIGHEST_NUMBER = 2**31 - 1  # of a step, rank or micro-step
