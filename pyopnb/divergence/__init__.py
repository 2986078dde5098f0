"""Where two runs part: traces held against each other, node by node."""
