"""Subgroups in each of which calibrated intervals hold: declaration, rows and thresholds."""
