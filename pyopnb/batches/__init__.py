"""Run a session many times, by the workers of an executor: `map` and `sweep`."""
