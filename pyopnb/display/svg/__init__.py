"""Pictures that know nothing of models: layered graphs, charts, heat maps, PNG."""
