"""Settings."""

import json


def in_file(key, path):
    """The value of a dotted key in the file; raises KeyError."""
    with open(path) as file:
        found = json.load(file)
    for part in key.split("."):
        if not isinstance(found, dict) or part not in found:
            raise KeyError(key)
        found = found[part]
    return found
