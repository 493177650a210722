"""Middleware for every request: limits, authentication, metrics and concurrency."""
