"""Single trees (Chipman, George and McCulloch 1998): chains and particle filter."""
