"""`faber report`: a run as one HTML file that needs nothing else."""
