"""The coder-reviewer loop of one phase, and the tree that it works in."""
