import csv
import io


def export(rows):
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
