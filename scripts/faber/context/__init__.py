"""Context reconstitution: everything the next session needs, from what the store and git hold."""
