"""A scheduler and workers over SSH: `python ssh.py SCHEDULER_HOST WORKER_HOST…`. Needs `pip install asyncssh`.

On every host the same Python and faber, at the same path; SSH must not ask for anything.
"""

import signal
import sys
from contextlib import suppress

from distributed import SSHCluster

AGENTS = 4  # that one worker runs at a time

signal.signal(signal.SIGTERM, signal.default_int_handler)
with (
    SSHCluster(
        sys.argv[1:],
        remote_python=sys.executable,
        scheduler_options={"host": sys.argv[1], "port": 8786, "dashboard": False},
        worker_options={
            "nthreads": AGENTS + 1,
            "resources": {"agent": AGENTS},
            "preload": ["faber.nebula.cluster.dask_cluster"],
        },
    ) as cluster,
    suppress(KeyboardInterrupt),
):
    print(f"faber nebula apply DIR --scheduler {cluster.scheduler_address}", flush=True)
    signal.pause()
