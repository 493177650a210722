"""Access: API keys, browser sessions, quotas, idempotency and the audit log."""
