"""Queries behind access: keys, browser sessions, quotas, idempotency keys and the audit log."""
