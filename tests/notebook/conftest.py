"""Fixtures that run cells in a shell."""

from shells import Ran, bare, define, only_shell, run, shell

__all__ = ["Ran", "bare", "define", "only_shell", "run", "shell"]
