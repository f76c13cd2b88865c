"""Where this plugin is: its directory and its program."""

import os


def plugin_root() -> str:
    """The plugin that this package is a part of: its checkout, or what an installed package has of it."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = os.path.join(package, "plugin")
    return installed if os.path.isdir(installed) else os.path.dirname(os.path.dirname(package))


PROGRAM = os.path.join(plugin_root(), "bin", "faber")
