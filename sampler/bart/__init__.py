"""Sums of trees (Chipman, George and McCulloch 2010): chain, priors, moves."""
