"""Recalibrated laws of outcomes: what is learnt of them, and from which rows (docs/maths.md)."""
