"""HTTP shared by the API and the dashboard: middleware, dependencies, errors, request and response bodies."""
