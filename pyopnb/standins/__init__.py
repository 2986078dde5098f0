"""What stands in for an operator: ONNX's reference implementation, or the cell that somebody is to fill in."""
