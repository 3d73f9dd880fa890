"""The promises of every sandbox backend, kept by a whole Pons, twice over: nothing of the first time is in the way."""

import os
import re
import subprocess

from pons_fixture import PonsTestCase

PROGRAM = os.environ["PONS_CONFORMANCE"]
SECONDS_MAX = 240


class Conformance(PonsTestCase):
    def test_every_promise_is_kept_each_time_and_leaves_nothing(self):
        pons = self.start()
        for _ in range(2):
            done = subprocess.run(
                [PROGRAM, "--gtest_color=no"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS_MAX,
                env={"PATH": os.environ["PATH"], "PONS_WARDEN_SOCKET": f"{pons.state_dir}/run/warden.sock"},
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, re.compile(r"\[  PASSED  \] [1-9]\d+ tests"))
            self.assertEqual(pons.ask("warden", "/sandboxes"), {"sandboxes": []})
        self.assertEqual(pons.stop(), 0)
