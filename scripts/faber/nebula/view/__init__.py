"""What a person sees of a run of a nebula: its plan, its status, its agents at work and what they did."""
