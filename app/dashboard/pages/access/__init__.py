"""Pages of signing in, of keys and of webhooks."""
