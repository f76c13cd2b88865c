# Sourced by each case's scaffold.sh, which the client runs in an empty directory, with an empty HOME.
#
#   state none       a small project without a run
#   state started    a run on it that a session left in the middle of build:quote-fields
#   state asked      the same run, waiting for a person's approval
# shellcheck shell=bash
set -euo pipefail

root=$(cd -P "${BASH_SOURCE[0]%/*}/.." && pwd -P)
run=shop/reports/csv-export

faber() {
    "$root/bin/faber" "$@" >/dev/null
}

# faber's environment, where bin/faber looks for it: that of python3 on PATH if it has the packages, else the one in the
# HOME of whoever runs this. Without either, the first call of faber builds one, in each run of a case.
environment() {
    local key user found prefix
    IFS= read -r key <"$root/requirements.lock"
    key=${key#"# key: "}
    prefix=$(python3 -I -c '
import sys
from importlib.metadata import version
for name in ("jsonschema", "markdown-it-py", "PyYAML", "rich", "tomli-w"):
    version(name)
if sys.version_info < (3, 11) or tuple(map(int, version("click").split(".")[:2])) < (8, 4):
    sys.exit(1)
print(sys.prefix)' 2>/dev/null) || prefix=
    if [ -z "$prefix" ]; then
        user=$(id -un)
        eval "found=(~$user/.local/share/faber/venv-$key-py3.*)"
        prefix=${found[0]}
    fi
    if [ -x "$prefix/bin/python" ]; then
        mkdir -p "$HOME/.local/share/faber"
        ln -s "$prefix" "$HOME/.local/share/faber/venv-$key-py3.x"
    fi
}

project() {
    git init -q -b main
    mkdir specs
    cat >report.py <<'PYTHON'
"""Sales reports."""


def average(amounts):
    return sum(amounts) / len(amounts)


def report(rows):
    for name, amount in rows:
        print(f"{name:20} {amount:10.2f}")


def to_csv(rows):
    for name, amount in rows:
        yield f"{name},{amount:.2f}\n"
PYTHON
    echo "Export reports as CSV: streamed, a header, quoted fields. Accounting opens the file." >specs/csv-export.md
    commit "Print reports"
}

commit() {
    git add --all
    git -c commit.gpgSign=false commit -q -m "$1"
}

begin() {
    git switch -q -c csv-export
    mkdir -p .fractary/faber/workflows
    cat >.fractary/faber/workflows/export.yaml <<'YAML'
id: export
phases:
  - id: specify
    name: Specify
    steps:
      - {id: write-spec, name: Write the specification, instruction: Write specs/csv-export.md.}
  - id: build
    name: Build
    steps:
      - {id: quote-fields, name: Quote fields, instruction: Quote the fields that hold a comma or a quotation mark.}
      - {id: write-header, name: Write the header, instruction: Write a header line with the names of the columns.}
  - id: check
    name: Check
    steps:
      - {id: yearly-report, name: Try the yearly report, instruction: Export a million rows and measure the memory.}
YAML
    commit "Say how an export is built"
    faber run init --run-id "$run" --target "Export reports as CSV" --workflow export
    faber next "$run"
    faber step complete "$run" specify:write-spec --next \
        --decision "Stream the rows from a generator: the yearly report has a million of them."
}

state() {
    environment
    project
    case $1 in
        none) ;;
        started) begin ;;
        asked)
            begin
            faber feedback request "$run" --prompt "May the plain-text report be removed once the CSV export works?"
            ;;
        *) return 2 ;;
    esac
}
