"""What is wrong with the runs on disk, and bringing them back from their events."""
