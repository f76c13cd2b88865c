"""Plain data and pure rules: documents, statuses, ids, event types, plans. No clock, no I/O."""
