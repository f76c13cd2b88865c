"""A leader in a process of its own, to be killed: the directory of a `SharedProject`, the scheduler's address, and as
JSON the options of `Wanted`."""

import json
import sys
from pathlib import Path

from faber.nebula.cluster.dask_cluster import Cluster
from faber.nebula.cluster.leader import Fleet
from support import remote_agents
from support.nebulas import Author, Project

if __name__ == "__main__":
    place, address, wanted = sys.argv[1:]
    with Cluster.connect(address) as cluster:
        fleet = Fleet(cluster, agents=remote_agents.make, poll=0.1)
        project = Project(Path(place) / "project")
        applied = project.apply(Author(), fleet, **json.loads(wanted))
    print(*project.said, applied.status, sep="\n")
