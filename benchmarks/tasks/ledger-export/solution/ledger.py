"""Reads a ledger, and exports its balances."""

import sys


def entries(lines):
    """The entries of a ledger: account and cents."""
    found = []
    for line in lines:
        if line.strip():
            account, cents = line.split()
            found.append((account, int(cents)))
    return found


def totals(lines):
    """The balance of each account in cents."""
    found = {}
    for account, cents in entries(lines):
        found[account] = found.get(account, 0) + cents
    return found


def written(cents):
    """An amount for the accountants."""
    amount = f"{abs(cents) // 100}.{abs(cents) % 100:02}"
    return f"({amount})" if cents < 0 else amount


def export(lines):
    """One line for each account."""
    return "".join(f"{account}; {written(cents)}\n" for account, cents in sorted(totals(lines).items()))


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        print(export(file), end="")
