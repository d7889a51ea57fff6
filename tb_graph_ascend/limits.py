"""Every bound on what the viewer takes from outside; docs/design/reliability.md lists them."""

from __future__ import annotations

MIB = 1024 * 1024

# Requests
MAX_BODY = 8 * MIB  # bytes of a request that changes matches
MAX_OPERATIONS = 10_000  # matches asked for in one request
MAX_TEXT = 2000  # characters of an author or a reason
MAX_NUMBER = 2**32 - 1  # of a step, rank or index

# Answers that are kept for whoever asks next, such as the hierarchy of a large graph
KEPT_FROM = MIB // 4  # bytes of one, compressed
KEPT_BYTES = 32 * MIB  # bytes of all

# The log directory
MAX_DIRECTORIES = 20_000
MAX_ENTRIES = 500_000
FRESH_SECONDS = 2.0  # how long a walk is remembered

# Databases
QUERY_SECONDS = 30.0  # one answer
MEASURES_SECONDS = 300.0  # the measures of one graph, which nobody waits for to see it
CHANGE_SECONDS = 120.0  # one change of matches
BUSY_SECONDS = 2.0  # wait of a reader for a writer
WAIT_SECONDS = 10.0  # wait of a writer for readers and other writers

# Regular expressions, each in a process of its own
EXPRESSION_SECONDS = 3.0
EXPRESSION_LENGTH = 1000  # characters
EXPRESSION_MEMORY = 256 * MIB  # beside the names themselves
EXPRESSIONS_AT_ONCE = 2
EXPRESSION_WAIT_SECONDS = 10.0  # until one of them is free

# Turning a file of the reference tool into one of ours, in a process of its own
CONVERT_SECONDS = 600.0
