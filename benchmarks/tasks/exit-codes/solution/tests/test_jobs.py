import tempfile
import unittest

import jobs


class JobsTest(unittest.TestCase):
    def test_a_job_is_added(self):
        with tempfile.TemporaryDirectory() as directory:
            jobs.main([directory + "/q", "add", "one", "job"])
            self.assertEqual(jobs.read(directory + "/q"), ["one job"])

    def test_take(self):
        with tempfile.TemporaryDirectory() as directory:
            jobs.main([directory + "/q", "add", "one"])
            self.assertEqual(jobs.main([directory + "/q", "take"]), 0)

    def test_empty(self):
        with tempfile.TemporaryDirectory() as directory:
            self.assertEqual(jobs.main([directory + "/q", "take"]), 75)

    def test_peek(self):
        with tempfile.TemporaryDirectory() as directory:
            self.assertEqual(jobs.main([directory + "/q", "peek"]), 75)
