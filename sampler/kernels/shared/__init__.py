"""Passes over rows that the threads of one chain share."""
