"""What all compiled kernels share: the registry, its cache, random numbers, rows and rules."""
