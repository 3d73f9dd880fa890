"""The admin token stays in its file."""

import glob
import os

from pons_fixture import PonsTestCase, is_in_memory


class Token(PonsTestCase):
    def test_token_appears_nowhere_but_in_its_file(self):
        pons = self.start("log:\n  level: debug\n")
        token = pons.token.encode()
        self.use(pons)
        for pid in pons.processes():
            for name in ("cmdline", "environ"):
                try:
                    with open(f"/proc/{pid}/{name}", "rb") as file:
                        text = file.read()
                except (FileNotFoundError, ProcessLookupError):
                    continue  # it has ended meanwhile
                self.assertNotIn(token, text, f"{name} of {pid}")
        self.assertEqual(pons.stop(), 0)
        self.assertEqual(self.files_with(token), [f"{pons.state_dir}/admin.token"])

    def test_front_does_not_hold_the_token_in_its_memory(self):
        # It is given a hash, so whoever reads its memory cannot use what it finds there.
        pons = self.start()
        token = pons.token.encode()
        pid = pons.role_pids()["front"]
        self.assertFalse(is_in_memory(pid, token))
        self.assertTrue(is_in_memory(pons.pid, token), "the search finds nothing even where the token is")

    def use(self, pons):
        """Rightly, wrongly, and where it would be logged if anything were."""
        self.assertEqual(pons.admin_request("/x/status")[0], 200)
        bearer = {"Authorization": f"Bearer {pons.token}"}
        for target in (f"/{pons.token}", f"/x/status?token={pons.token}", "/missing"):
            pons.request(target, headers=bearer)
        pons.request("/x/status", method="POST", headers=bearer, body=pons.token)
        pons.command("status")
        pons.command("doctor")
        for role in ("front", "brain"):
            os.kill(pons.role_pids()[role], 9)

    def files_with(self, token):
        found = []
        for path in glob.glob(f"{self.directory}/**", recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    if token in file.read():
                        found.append(path)
        return found
