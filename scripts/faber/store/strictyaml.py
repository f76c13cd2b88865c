"""YAML with limits: plain data only, no aliases, no tags, no duplicate keys, bounded size and depth."""

from typing import Any

from faber.store.strictjson import MAX_DEPTH

MAX_YAML = 256 * 1024


class InvalidYAML(ValueError):
    """Not YAML as faber accepts it; `line` counts from 1 (0 if unknown)."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


def loads(text: str) -> Any:
    """The data in `text`: mappings with text keys, lists, text, numbers, booleans, null.

    Dates stay text. Raises `InvalidYAML`. Aliases are refused because a few lines of them can stand
    for gigabytes.
    """
    import yaml

    if len(text) > MAX_YAML:
        raise InvalidYAML(f"longer than {MAX_YAML} characters")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return None if node is None else _build(node, MAX_DEPTH, set())
    except RecursionError:
        raise InvalidYAML("nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise InvalidYAML(str(error.problem or "not YAML"), mark.line + 1 if mark else 0) from None
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, InvalidYAML):
            raise
        raise InvalidYAML(str(error)) from None


def _build(node: Any, left: int, seen: set[int]) -> Any:
    line = node.start_mark.line + 1
    if left == 0:
        raise InvalidYAML(f"nested deeper than {MAX_DEPTH} levels", line)
    if id(node) in seen:  # the composer answers an alias with the very node it points to
        raise InvalidYAML("aliases are not accepted", line)
    seen.add(id(node))
    if node.id == "sequence":
        _plain(node, "tag:yaml.org,2002:seq")
        return [_build(item, left - 1, seen) for item in node.value]
    if node.id == "mapping":
        _plain(node, "tag:yaml.org,2002:map")
        made: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = _build(key_node, left - 1, seen)
            if isinstance(key, (dict, list)):
                raise InvalidYAML("a key must be plain text", line)
            key = key_node.value
            if key in made:
                raise InvalidYAML(f"duplicate key {key[:60]!a}", key_node.start_mark.line + 1)
            made[key] = _build(value_node, left - 1, seen)
        return made
    return _scalar(node, line)


def _plain(node: Any, tag: str) -> None:
    if node.tag != tag:
        raise InvalidYAML(f"the tag {node.tag[:60]!a} is not accepted", node.start_mark.line + 1)


def _scalar(node: Any, line: int) -> Any:
    import yaml

    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    constructor = yaml.constructor.SafeConstructor()
    try:
        if kind in ("str", "timestamp"):
            return node.value
        if kind == "null":
            return None
        if kind == "bool":
            return constructor.construct_yaml_bool(node)
        if kind == "int":
            return constructor.construct_yaml_int(node)
        if kind == "float":
            number = constructor.construct_yaml_float(node)
            if number != number or number in (float("inf"), float("-inf")):
                raise InvalidYAML(f"{node.value} is not a number", line)
            return number
    except (ValueError, OverflowError) as error:
        raise InvalidYAML(str(error), line) from None
    raise InvalidYAML(f"the tag {node.tag[:60]!a} is not accepted", line)
