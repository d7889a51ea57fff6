"""What is explained, or shown, by a run having been put together from ranks."""
