"""Where a run's context is read from: its specification, its work item and its git branch."""
