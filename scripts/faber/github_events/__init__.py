"""Events of GitHub: what comments, reviews and checks do to a run."""
