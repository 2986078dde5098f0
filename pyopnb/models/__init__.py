"""Work on a ModelProto: its text form, edits, files, and support by the installed runtime."""
