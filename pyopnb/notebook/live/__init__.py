"""Live outputs: they run again when an op is redefined, or when the user moves a slider."""
