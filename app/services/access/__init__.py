"""Who may do what: keys, sessions, quotas, audit."""
