"""What an op is: its dtypes, the schema read from its class, the registry of its versions, the errors."""
