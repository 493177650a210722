"""Business logic of the endpoints, independent of HTTP."""
