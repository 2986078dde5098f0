"""A session run many times by the threads, processes or machines of an executor: `map` and `sweep`."""
