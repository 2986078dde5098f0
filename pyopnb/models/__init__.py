"""ModelProtos: built, read, ordered, typed, edited, saved and loaded."""
