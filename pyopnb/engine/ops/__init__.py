"""Define ops: their dtypes, the schemas of their classes, and the registry of their versions."""
