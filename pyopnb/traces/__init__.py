"""Every named tensor of a run: which to expose, their values, and how long each node took."""
