"""Where phases are worked on and merged: worktrees, leases, integration and landing."""
