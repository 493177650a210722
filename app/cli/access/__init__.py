"""Commands about keys, and about webhooks."""
