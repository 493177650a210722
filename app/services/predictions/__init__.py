"""Synchronous and background predictions, and explanations of models."""
