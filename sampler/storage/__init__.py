"""Draws and models as bytes."""
