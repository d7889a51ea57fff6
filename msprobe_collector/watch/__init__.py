"""Compare each call with a recorded run while the training runs."""
