import unittest

import ledger


class EntriesTest(unittest.TestCase):
    def test_empty_lines_are_ignored(self):
        self.assertEqual(ledger.entries(["rent -90000", "", "sales 5"]), [("rent", -90000), ("sales", 5)])

    def test_totals(self):
        self.assertEqual(ledger.totals(["a 1", "a 2"]), {"a": 3})

    def test_export(self):
        self.assertEqual(ledger.export(["a 105"]), "a; 1.05\n")

    def test_negative(self):
        self.assertEqual(ledger.export(["a -105"]), "a; (1.05)\n")
