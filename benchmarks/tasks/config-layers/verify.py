"""The two places are read as the person said, early and late."""

import json
import tempfile
from pathlib import Path
from typing import Any

from checking import imported, ran, tests_pass

KEPT = {"http": {"port": 80, "host": "h"}, "secret": {"key": "k"}}


def _with_file(tree: Path, use: Any) -> Any:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(json.dumps(KEPT))
        file.flush()
        return use(imported(tree, "settings"), file.name)


def decision_names_of_variables(tree: Path) -> bool:
    variable = imported(tree, "settings").variable
    return [variable("http.max_age"), variable("a")] == ["APP_HTTP__MAX_AGE", "APP_A"]


def result_the_file_is_read(tree: Path) -> bool:
    return bool(_with_file(tree, lambda module, path: module.value("http.port", path, {})) == 80)


def result_nowhere(tree: Path) -> bool:
    def missing(module: Any, path: str) -> bool:
        try:
            module.value("http.none", path, {})
        except KeyError:
            return bool(module.explain("http.none", path, {}) == "nowhere")
        return False

    return bool(_with_file(tree, missing))


def answer_the_environment_wins(tree: Path) -> bool:
    def used(module: Any, path: str) -> bool:
        environ = {"APP_HTTP__HOST": "e"}
        return bool(module.value("http.host", path, environ) == "e"
                    and module.explain("http.host", path, environ) == "environment")  # fmt: skip

    return bool(_with_file(tree, used))


def answer_secrets_are_not_read_from_it(tree: Path) -> bool:
    def used(module: Any, path: str) -> bool:
        environ = {"APP_SECRET__KEY": "e", "APP_SECRET__NEW": "e"}
        return bool(module.value("secret.key", path, environ) == "k"
                    and module.explain("secret.key", path, environ) == "file"
                    and module.explain("secret.new", path, environ) == "nowhere")  # fmt: skip

    return bool(_with_file(tree, used))


def forbidden_no_conversion(tree: Path) -> bool:
    environ = {"APP_HTTP__PORT": "081"}
    return bool(_with_file(tree, lambda module, path: module.value("http.port", path, environ)) == "081")


def result_command(tree: Path) -> bool:
    def used(module: Any, path: str) -> bool:
        found, missing = ran(tree, "-m", "settings", path, "http.host"), ran(tree, "-m", "settings", path, "no")
        return (found.stdout.strip(), found.returncode, missing.returncode) == ("h", 0, 3)

    return bool(_with_file(tree, used))


def answer_readme(tree: Path) -> bool:
    return "secret." in (tree / "README.md").read_text().partition("## Which wins")[2]


def result_tests(tree: Path) -> bool:
    return tests_pass(tree, 5)
