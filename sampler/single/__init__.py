"""The literature's systems of one tree: Bayesian CART, and what came after it."""
