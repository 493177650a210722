"""Censored outcomes: their columns, and a line that is fitted to them (docs/maths.md#censored-outcomes)."""
