"""The only room that starts git: what it is asked, what it changes, and the names and paths it may be given."""
