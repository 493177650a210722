"""HTTP for the API and the dashboard alike: middleware, dependencies, errors, bodies in and answers out."""
