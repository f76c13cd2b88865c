"""Nebulas: directories of phases that headless agents work through in parallel."""
