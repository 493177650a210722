"""Fits: models, their costs, restarts, stop rules and events."""
