import csv
import io

from export import export

ROWS = [["a, b", 'say "hi"'], ["two\nlines", ""]]
FOUND = list(csv.reader(io.StringIO(export(ROWS), newline="")))
assert FOUND == ROWS, f"written {ROWS}, read {FOUND}"
