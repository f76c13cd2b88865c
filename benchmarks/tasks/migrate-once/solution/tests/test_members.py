import unittest

import members


class MembersTest(unittest.TestCase):
    def test_there_are_three(self):
        self.assertEqual(len(members.members()), 3)

    def test_new(self):
        self.assertEqual(members.find(31)["name"], "Noor")

    def test_old(self):
        self.assertEqual(members.find(1)["name"], "Ada")
