"""What happened later: outcomes reported to a model, the watch on its intervals, recalibration and refit."""
