"""Arrays, and what is made of them, held against each other."""
