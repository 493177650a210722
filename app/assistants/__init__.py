"""Tools for assistants, by the Model Context Protocol, which ask the service by its HTTP client alone."""
