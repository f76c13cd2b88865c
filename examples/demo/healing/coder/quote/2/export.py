def quoted(value):
    return '"' + value.replace('"', "'") + '"'


def export(rows):
    return "".join(",".join(map(quoted, row)) + "\n" for row in rows)
