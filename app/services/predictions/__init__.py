"""Predictions, stored predictions, and explanations of models."""
