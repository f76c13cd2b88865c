"""A scheduler here, and workers as jobs of Slurm: `python slurm.py HOST JOBS`. Needs `pip install dask-jobqueue`.

PBS, LSF, SGE, HTCondor and OAR have a class of their own there, with the same arguments.
"""

import signal
import sys
from contextlib import suppress

from dask_jobqueue import SLURMCluster

AGENTS = 4  # that one worker runs at a time

signal.signal(signal.SIGTERM, signal.default_int_handler)
with (
    SLURMCluster(
        n_workers=int(sys.argv[2]),
        cores=AGENTS + 1,  # threads; the agents are processes, and mostly wait
        processes=1,
        job_cpu=AGENTS,
        memory="16 GiB",
        walltime="24:00:00",
        python=sys.executable,
        scheduler_options={"host": sys.argv[1], "port": 8786, "dashboard": False},
        worker_extra_args=["--resources", f"agent={AGENTS}", "--preload", "faber.nebula.cluster.dask_cluster"],
    ) as cluster,
    suppress(KeyboardInterrupt),
):
    print(f"faber nebula apply DIR --scheduler {cluster.scheduler_address}", flush=True)
    signal.pause()
