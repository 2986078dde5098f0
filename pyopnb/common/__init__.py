"""What every room needs: messages, tables, progress, files and locks."""
