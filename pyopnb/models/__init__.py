"""What users do with a ModelProto: its text form, edits, files, and what the runtime lacks."""
