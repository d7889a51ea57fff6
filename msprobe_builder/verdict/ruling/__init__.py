"""Whom the findings accuse, in which words, and what to record next."""
