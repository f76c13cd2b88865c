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

    def test_variable(self):
        self.assertEqual(settings.variable("http.max_age"), "APP_HTTP__MAX_AGE")

    def test_environment(self):
        self.assertEqual(settings.value("http.port", self.file.name, {"APP_HTTP__PORT": "81"}), "81")

    def test_secret(self):
        self.assertEqual(settings.value("secret.key", self.file.name, {"APP_SECRET__KEY": "x"}), "k")

    def test_explain(self):
        self.assertEqual(settings.explain("http.x", self.file.name, {}), "nowhere")
