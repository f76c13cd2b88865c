"""Running other programs without a shell: bounded in time and output, in a clean environment."""
