"""Cores for computations; it brings nothing with it, since settings ask."""

from sampler.interrupt import count_cores
