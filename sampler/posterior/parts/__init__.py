"""Parts beside the trees: slopes of a linear part, intercepts and slopes of groups."""
