import unittest

import members


class MembersTest(unittest.TestCase):
    def test_there_are_three(self):
        self.assertEqual(len(members.members()), 3)
