"""Latent variables of rows, drawn given the forests at the start of an iteration."""
