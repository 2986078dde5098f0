"""Live outputs: they run again when an op is redefined, or when somebody moves a slider."""
