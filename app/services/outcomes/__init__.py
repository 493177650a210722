"""Outcomes reported to a model after its fit, the watch on its intervals, recalibration and refit."""
