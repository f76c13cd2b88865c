"""Opening the provider of work items that the configuration chooses."""

from collections.abc import Mapping

from faber.errors import Refused
from faber.sources.work_items import Commenting, WorkItemSource
from faber.store.config import Config
from faber.store.layout import Layout


class NoCommenting(Refused):
    """The project's provider of work items has no comments."""

    code = "no_commenting"
    recovery = "Set `work_items: {provider: github}` in .fractary/faber/config.yaml."


def open_source(config: Config, layout: Layout, environ: Mapping[str, str]) -> WorkItemSource | None:
    """The provider that config.yaml chooses; None if the project has no work items.

    Opening reads and sends nothing and cannot fail: the first method called raises a `WorkItemError` if host,
    repository or credentials are wrong.
    """
    provider = config.at("work_items.provider")
    if provider == "none":
        return None
    if provider == "github":
        from faber.github.issues import GitHubSettings, GitHubWorkItems

        return GitHubWorkItems.connecting(layout.root, GitHubSettings.of(config), environ)
    from faber.sources.work_files import FileWorkItems

    return FileWorkItems(layout.work_items)


def open_commenting(config: Config, layout: Layout, environ: Mapping[str, str]) -> Commenting:
    """The same provider, if it has comments; raises `NoCommenting`."""
    source = open_source(config, layout, environ)
    if not isinstance(source, Commenting):
        raise NoCommenting(f"The provider {config.at('work_items.provider')!r} does not support comments.")
    return source
