"""Passes over the calls in order of execution: clean, suspect, carrier, amplifier."""
