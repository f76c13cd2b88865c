"""A directory of phases: what depends on what, where each is worked on, and how the work comes together."""
