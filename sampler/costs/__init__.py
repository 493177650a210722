"""Estimated cost of a fit before it starts: seconds, and memory of a process."""
