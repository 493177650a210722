"""The dashboard: pages rendered on the server, readable without JavaScript and updated live with it."""
