"""The verdict by one model of error: what is expected of each call, and what explains the rest."""
