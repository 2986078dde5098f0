"""ModelProtos: read, walked, built, prepared for the installed runtime."""
