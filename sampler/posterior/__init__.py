"""The posterior: predictions with intervals, diagnostics, explanations."""
