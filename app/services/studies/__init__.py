"""Studies of models: fits besides a model's own that answer a question about it, in the background."""
