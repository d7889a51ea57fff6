"""One pass over a tensor on the host by a compiled module, where there is one."""
