"""Chains whose rows several threads share."""
