"""Answers as plain data, with their tables; charts and notebook cards are named, not imported."""
