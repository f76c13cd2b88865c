"""Runs a scenario in a mount namespace of its own, so that whatever it mounts goes away with it."""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from faults.store import environment


@cache
def _namespace() -> tuple[str, ...] | None:
    """How to get a namespace in which one may mount; None where that is not allowed."""
    if shutil.which("unshare") is None:
        return None
    for prefix in (("unshare", "--mount"), ("unshare", "--map-root-user", "--mount")):
        probe = [*prefix, "sh", "-c", "mount -t tmpfs probe /mnt"]
        if subprocess.run(probe, capture_output=True, check=False, timeout=30).returncode == 0:
            return prefix
    return None


def in_namespace(scenario: str, *arguments: str) -> Any:
    """Run the Python text `scenario` where it may mount, and answer the JSON it prints.

    `sys.argv[1:3]` are the directories of the product and of the tests. Where mounting is not allowed: a failure
    under CI=true, else a skip.
    """
    prefix = _namespace()
    if prefix is None:
        if os.environ.get("CI") == "true":
            pytest.fail("mounting is not permitted (never skipped where CI=true)")
        pytest.skip("mounting is not permitted")
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    product = os.path.join(os.path.dirname(tests), "scripts")
    done = subprocess.run(
        [*prefix, sys.executable, "-I", "-B", "-c", scenario, product, tests, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
