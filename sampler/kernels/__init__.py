"""Common parts of all compiled kernels: registry, cache of machine code, random numbers, rows and rules."""
