"""Studies of the five documents that this project implements: docs/papers.md beside their own numbers."""
