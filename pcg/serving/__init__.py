"""How the page and the service are served: what visitors may send, what is kept of it, and a Space to serve it in."""
