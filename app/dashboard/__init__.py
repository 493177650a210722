"""Pages for people: rendered on the server, readable without JavaScript, alive with a little of it."""
