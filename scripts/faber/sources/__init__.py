"""What a run is about, read from outside the store: its specification, work item and evidence."""
