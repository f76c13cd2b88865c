"""Starts other programs: without a shell, bounded in time and output. Also writes to this program's own stdout."""
