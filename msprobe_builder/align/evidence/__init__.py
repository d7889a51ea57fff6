"""What speaks for a pair: traits, values, words, call sites, and what flows between calls."""
