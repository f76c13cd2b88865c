import unittest

import ledger


class EntriesTest(unittest.TestCase):
    def test_empty_lines_are_ignored(self):
        self.assertEqual(ledger.entries(["rent -90000", "", "sales 5"]), [("rent", -90000), ("sales", 5)])
