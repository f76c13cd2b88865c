"""Where a report is written, and what it may replace."""

import os

from faber.errors import FaberError, UnsafeFile
from faber.report.page import GENERATOR
from faber.store.files import read_bytes, write_atomic

_HEAD = 4_096
_LARGEST = 1 << 30


class NotAReport(FaberError):
    """A file that is not a report is in the place of one."""

    code = "not_a_report"
    recovery = "Name another file with --output; - is stdout."


def report_path(output: str | None, run_id: str) -> str:
    """The absolute path of the file: `output`, a file in it if it is a directory, or one in the current directory."""
    name = f"faber-report-{run_id.replace('/', '-')}.html"
    given = os.path.join(output, name) if output and os.path.isdir(output) else output or name
    return os.path.abspath(given)


def write_report(path: str, page: str) -> None:
    """Write the page, in the place of an earlier report; raises `NotAReport` over another file, a link or a device."""
    try:
        there = read_bytes(path, _LARGEST)[:_HEAD]
    except FileNotFoundError:
        there = b""
    except UnsafeFile as error:
        raise NotAReport(f"{path} cannot be replaced by a report. {error.message}", path=path) from None
    if there and f'name="generator" content="{GENERATOR}'.encode() not in there:
        raise NotAReport(f"{path} exists, and is not a report of faber.", path=path)
    write_atomic(path, page.encode(), durable=False)
