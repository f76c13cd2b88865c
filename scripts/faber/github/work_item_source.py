"""Which provider of work items the configuration chooses, opened in one place."""

from collections.abc import Mapping

from faber.errors import Refused
from faber.sources.work_items import Commenting, WorkItemSource
from faber.store.config import Config
from faber.store.layout import Layout


class NoCommenting(Refused):
    """The project's work items are kept where nobody can comment."""

    code = "no_commenting"
    recovery = "Set `work_items: {provider: github}` in .fractary/faber/config.yaml."


def open_source(config: Config, layout: Layout, environ: Mapping[str, str]) -> WorkItemSource | None:
    """The provider that config.yaml chooses; None where the project has no work items.

    Nothing is read, asked or sent yet, so nothing fails: what is wrong with host, repository or
    credentials is said by the first method called, as a `WorkItemError`.
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
    """The same provider, where its work items can be commented on; raises `NoCommenting`."""
    source = open_source(config, layout, environ)
    if not isinstance(source, Commenting):
        raise NoCommenting(f"The provider {config.at('work_items.provider')!r} has no comments to write.")
    return source
