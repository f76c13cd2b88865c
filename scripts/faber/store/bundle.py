"""Where this bundle is: the plugin's directory and its program."""

import os

BUNDLE = os.path.abspath(__file__).rsplit(os.sep, 4)[0]
PROGRAM = os.path.join(BUNDLE, "bin", "faber")
