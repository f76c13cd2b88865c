import unittest

import names


class NamesTest(unittest.TestCase):
    def test_key(self):
        self.assertEqual(names.key("  Ada  B "), "ada b")

    def test_sharp_s(self):
        self.assertEqual(names.key("Groß"), names.key("GROSS"))

    def test_groups(self):
        self.assertEqual(names.groups(["b", "a"]), {"A": ["a"], "B": ["b"]})

    def test_empty(self):
        self.assertEqual(names.groups([" "]), {})

    def test_index(self):
        self.assertEqual(names.index(["b", "a"]), "A\n  a\n\nB\n  b\n")
