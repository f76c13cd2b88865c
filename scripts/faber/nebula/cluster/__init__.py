"""A nebula on several machines: the leader hands out phases as jobs, the workers of a cluster push their results."""
