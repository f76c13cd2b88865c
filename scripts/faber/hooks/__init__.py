"""What the client calls at the turns of a session's life: standard library only, and never in the way."""
