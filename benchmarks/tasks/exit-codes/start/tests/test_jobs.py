import tempfile
import unittest

import jobs


class JobsTest(unittest.TestCase):
    def test_a_job_is_added(self):
        with tempfile.TemporaryDirectory() as directory:
            jobs.main([directory + "/q", "add", "one", "job"])
            self.assertEqual(jobs.read(directory + "/q"), ["one job"])
