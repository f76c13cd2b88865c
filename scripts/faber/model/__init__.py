"""Plain data and pure rules: documents, ids, event types, progress, commands. No clock, no I/O."""
