"""Migrating `faber.db` to the current schema: numbered SQL files, each applied once, all in one transaction."""

import os
import re
import sqlite3
from collections.abc import Iterator

DIRECTORY = os.path.join(os.path.dirname(__file__), "migrations")
_NAME = re.compile(r"(\d{3})_\w+\.sql")


def migrate(connection: sqlite3.Connection, directory: str = DIRECTORY) -> list[str]:
    """Apply the migrations that the database has not seen; their names.

    The number of the last one is the database's `user_version`. A database of a newer faber is left unchanged. Two
    processes may migrate at once: the second finds nothing to do. Raises `sqlite3.Error` with nothing changed.
    """
    migrations = _migrations(directory)
    if _version(connection) >= migrations[-1][0]:
        return []
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)
        due = [(number, name) for number, name in migrations if number > version]
        for _, name in due:
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                for statement in statements(file.read()):
                    connection.execute(statement)
        if due:
            connection.execute(f"PRAGMA user_version = {due[-1][0]}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return [name for _, name in due]


def statements(script: str) -> Iterator[str]:
    """The statements of a script one by one, because `executescript` would commit the surrounding transaction."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending.strip()
            pending = ""
    if pending.strip():
        yield pending.strip()


def _migrations(directory: str) -> list[tuple[int, str]]:
    return sorted((int(found[1]), name) for name in os.listdir(directory) if (found := _NAME.fullmatch(name)))


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
