"""Sets of models over HTTP."""
