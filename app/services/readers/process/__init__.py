"""The confined process that reads files: its fork server, its tasks, and its limits."""
