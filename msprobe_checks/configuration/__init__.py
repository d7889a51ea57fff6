"""What may make two trainings differ before a single number was computed."""
