"""A chain that people step themselves."""
