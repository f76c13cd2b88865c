"""Programs run without a shell, bounded in time and output, in an environment that the caller gives; and stdout."""
