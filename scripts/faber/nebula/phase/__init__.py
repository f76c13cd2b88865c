"""The coder-reviewer loop of one phase: cycles, filters, findings, budget and checkpoints."""
