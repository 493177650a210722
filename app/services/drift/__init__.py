"""Drift: whether the rows that models predict for still resemble their training rows."""
