"""How near statistics of the same tensor lie in two runs."""

# Equal runs on other hardware agree to 1e-5, runs in bfloat16 to about 1e-2.
EQUAL, NEAR = 1e-5, 2e-2
