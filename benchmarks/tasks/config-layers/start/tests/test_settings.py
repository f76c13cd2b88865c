import tempfile
import unittest

import settings


class SettingsTest(unittest.TestCase):
    def setUp(self):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".json")
        self.file.write('{"http": {"port": 80}, "secret": {"key": "k"}}')
        self.file.flush()
        self.addCleanup(self.file.close)

    def test_in_file(self):
        self.assertEqual(settings.in_file("http.port", self.file.name), 80)
