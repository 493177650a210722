"""Forms of the dashboard: fields, and what is read from them."""
