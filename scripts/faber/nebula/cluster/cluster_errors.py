"""Errors of a cluster: of the connection to it, and of a job on it."""

from faber.errors import Exit, FaberError


class ClusterExtraMissing(FaberError):
    """The package that connects to a cluster is not installed."""

    code = "cluster_extra_missing"
    recovery = (
        "Install faber with its extra into your own environment (`pip install -e 'PATH-OF-FABER[distributed]'`) "
        "and set FABER_VENV to that environment."
    )


class SchedulerUnreachable(FaberError):
    """No scheduler answers at the address."""

    code = "scheduler_unreachable"
    recovery = "Start one (`dask scheduler`) or correct the address; nothing was started."


class ClusterLost(FaberError):
    """The connection to the scheduler was lost during the work."""

    code = "cluster_lost"
    exit_code = Exit.INTERRUPTED
    recovery = (
        "Start the scheduler, then `faber nebula apply DIR --resume --scheduler ADDRESS` resumes from what was pushed."
    )


class JobLost(FaberError):
    """The cluster abandoned the job, or the job failed for a reason outside the phase."""

    code = "job_lost"
    recovery = "Check the workers' logs; then run `faber nebula apply DIR --resume --retry-failed`."


class RemoteFailed(FaberError):
    """A worker could not work on a phase; `code` says why."""

    def __init__(self, code: str, message: str, recovery: str, phase: str) -> None:
        super().__init__(message, recovery=recovery, phase=phase)
        self.code = code


class JobStopped(Exception):
    """The job was stopped before it reported anything."""
