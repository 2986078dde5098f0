"""Every named tensor of a run: which to expose, what they hold, and how long each node took."""
