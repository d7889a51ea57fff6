"""Functions that draw random numbers: who calls them, and from which state they draw."""
