"""Where the time of a session's runs goes: many runs, node by node."""
