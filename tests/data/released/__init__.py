"""Databases as every released revision of the schema left them, made by `python -m tests.data.released`."""
