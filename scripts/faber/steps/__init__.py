"""What happens around a step outside the lock: its branch and evidence are checked, the next one is started."""
