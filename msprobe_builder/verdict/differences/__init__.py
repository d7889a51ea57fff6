"""What differs between two runs, how far, and what rounding alone explains."""
