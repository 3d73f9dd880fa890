"""The template `base` as its users find it: built by `pons template build`, used through the official SDK."""

import subprocess

from pons_fixture import LONG
from sdk_fixture import SdkTestCase

BUILD_SECONDS = 1500  # it installs packages from a mirror

if LONG:
    class BaseTemplate(SdkTestCase):
        def test_it_is_built_and_has_what_users_expect(self):
            built = subprocess.run([self.binary, "template", "build", "base", "--state-dir", self.pons.state_dir],
                                   stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BUILD_SECONDS,
                                   cwd=self.directory)
            self.assertEqual(built.returncode, 0, built.stderr)
            self.run_suite("base")
