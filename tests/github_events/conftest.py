"""The world of the pull request's tests, for what happens to one on GitHub."""

from pull_request.conftest import made as made
from pull_request.conftest import world as world
