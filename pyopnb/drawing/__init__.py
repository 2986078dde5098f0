"""Pictures of anything: layered graphs, PNG, HTML, colours. Knows nothing of models."""
