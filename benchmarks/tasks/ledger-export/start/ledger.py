"""Reads a ledger."""


def entries(lines):
    """The entries of a ledger: account and cents."""
    found = []
    for line in lines:
        if line.strip():
            account, cents = line.split()
            found.append((account, int(cents)))
    return found
