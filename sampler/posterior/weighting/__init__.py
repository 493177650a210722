"""Weights of draws: equal, or of importance samples."""
