"""Explanations of fitted models over HTTP."""
