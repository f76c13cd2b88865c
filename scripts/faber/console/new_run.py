"""The id of a run that a command creates."""

import os

from faber.console.invocation import Invocation
from faber.model.ids import slug


def new_run_id(obj: Invocation) -> str:
    """The id: org/project/uuid, from the git remote."""
    from uuid import uuid4

    from faber.git.inspect import remote_slug

    found = remote_slug(obj.layout.root)
    org, project = found or ("local", os.path.basename(obj.layout.root))
    return f"{slug(org)}/{slug(project)}/{uuid4()}"
