"""The store: engine, tables, queries. The only code that speaks SQL; no web, no Celery, no sampler."""
