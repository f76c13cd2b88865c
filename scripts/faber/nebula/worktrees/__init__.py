"""Where phases are worked on and come together: worktrees, leases, integration and landing."""
