"""Prints the new and old numbers."""

from members import members

for new, old in sorted(zip(members(), members("before.json")), key=lambda pair: pair[0]["name"]):
    print(f"{new['number']} <- {old['number']} {new['name']}")
