"""GitHub for tests: its API's description, and a server on loopback that is held to it."""
