"""A session: how it is configured and built, its state, its attrs, and its pickle."""
