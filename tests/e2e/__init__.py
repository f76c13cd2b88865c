"""The plugin in the real client, offline: a scripted Messages API on loopback, and the client driven against it."""
