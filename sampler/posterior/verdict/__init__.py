"""Whether chains agree, and what a posterior can be used for (docs/verdict.md)."""
