"""Two monitored trainings, step by step."""
