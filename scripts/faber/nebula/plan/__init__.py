"""A nebula's files: specs, parsing, validation, the phase graph, and nebula.state.toml."""
