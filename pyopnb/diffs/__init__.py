"""The one function that holds anything against anything."""
