"""Studies of models: fits besides a model's own, in units of a few seconds."""
