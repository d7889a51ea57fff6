"""Calls that do together what calls of the other side do."""
