"""Charts and notebook cards of a posterior and of its answers."""
