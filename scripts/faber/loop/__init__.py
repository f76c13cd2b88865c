"""What the coder-reviewer loop of one phase knows: its cycles, findings and checkpoints."""
