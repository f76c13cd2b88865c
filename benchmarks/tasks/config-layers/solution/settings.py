"""Settings."""

import json
import os
import sys


def in_file(key, path):
    """The value of a dotted key in the file; raises KeyError."""
    with open(path) as file:
        found = json.load(file)
    for part in key.split("."):
        if not isinstance(found, dict) or part not in found:
            raise KeyError(key)
        found = found[part]
    return found


def variable(key):
    """The key's environment variable."""
    return "APP_" + key.upper().replace(".", "__")


def explain(key, path, environ):
    """Where the value comes from."""
    if not key.startswith("secret.") and variable(key) in environ:
        return "environment"
    try:
        in_file(key, path)
    except KeyError:
        return "nowhere"
    return "file"


def value(key, path, environ):
    """The value of a dotted key; raises KeyError."""
    return environ[variable(key)] if explain(key, path, environ) == "environment" else in_file(key, path)


if __name__ == "__main__":
    try:
        print(value(sys.argv[2], sys.argv[1], os.environ))
    except KeyError:
        sys.exit(3)
