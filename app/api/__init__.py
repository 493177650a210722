"""The HTTP API: one module of routes per kind of object."""
