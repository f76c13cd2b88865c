def export(rows):
    return "".join(",".join(row) + "\n" for row in rows)
