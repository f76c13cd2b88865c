"""Sources of a run outside the store: its specification, work item and evidence."""
