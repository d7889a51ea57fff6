"""Look into compiled regions: call by call, or held against the same graph without a compiler."""
