"""Taking back pairs that cannot be right, whatever speaks for them."""
