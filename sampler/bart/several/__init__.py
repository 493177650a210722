"""Chains of several outcomes at once (docs/maths.md#several-outcomes)."""
