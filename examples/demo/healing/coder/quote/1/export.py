def export(rows):
    return "".join(",".join(f'"{value}"' for value in row) + "\n" for row in rows)
