"""Sets of models, one for each group of a dataset's rows."""
