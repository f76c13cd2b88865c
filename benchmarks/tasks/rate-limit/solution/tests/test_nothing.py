import unittest

from limits import Limiter, allow_all


class LimitsTest(unittest.TestCase):
    def test_full(self):
        self.assertTrue(Limiter(1, 10, lambda: 0).allow())

    def test_refused(self):
        limiter = Limiter(1, 10, lambda: 0)
        self.assertEqual([limiter.allow(), limiter.allow()], [True, False])

    def test_wait(self):
        limiter = Limiter(1, 2.5, lambda: 0)
        limiter.allow()
        self.assertEqual(limiter.wait(), 3)

    def test_no_wait(self):
        self.assertEqual(Limiter(1, 2.5, lambda: 0).wait(), 0)

    def test_all(self):
        self.assertTrue(allow_all([Limiter(1, 1, lambda: 0)]))
