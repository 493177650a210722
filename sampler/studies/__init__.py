"""Studies: many fits that answer one question about a table."""
