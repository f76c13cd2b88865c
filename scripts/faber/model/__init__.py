"""Documents, events, and every rule and decision over them: pure, without a clock and without I/O."""
