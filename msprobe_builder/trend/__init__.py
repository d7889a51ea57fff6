"""Numbers over many steps: records of a monitor and dumps, for comparisons and trends."""
