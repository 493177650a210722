"""Webhooks and the outbox of their deliveries."""
