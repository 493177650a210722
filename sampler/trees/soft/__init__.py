"""Single trees of soft splits: chains, and the search over topologies."""
