"""Fixtures that run cells in a shell."""

from shells import bare, only_shell, run, shell

__all__ = ["bare", "only_shell", "run", "shell"]
