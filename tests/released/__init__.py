"""Databases as every released revision of the schema left them; `python -m tests.released` makes them."""
