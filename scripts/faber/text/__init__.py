"""Text as it may be shown, handed on or kept: inert, shortened, free of credentials, with commands that can be run."""
