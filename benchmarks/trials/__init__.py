"""The trial with a model: what interruptions cost with and without faber. `trial.py` is its program."""
