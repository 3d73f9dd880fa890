"""POST /run: a sandbox, one command in it, and its end, in one request."""

import glob
import http.client
import json
import os
import signal

from pons_fixture import PonsTestCase, read_text, wait_for
from sandbox_world import groups, processes_of
from warden_client import Refused, Sandbox, Warden, end_orderly


class Run(PonsTestCase):
    def setUp(self):
        super().setUp()
        self.pons = self.start("sandbox:\n  warm_min: 1\n  warm_max: 2\n")
        self.addCleanup(end_orderly, self.pons)
        self.warden = Warden(self.pons)

    def run_once(self, job, **request):
        connection = self.warden.connection()
        connection.request("POST", "/run", body=json.dumps({"job": job, **request}))
        return list(Sandbox.follow(connection))

    def test_lines_tell_the_sandbox_the_job_and_its_end_and_nothing_is_left(self):
        for _ in range(3):  # from the pool, and when that is empty
            lines = self.run_once({"argv": ["sh", "-c", "echo hi; exit 3"]})
            self.assertEqual([next(iter(line)) for line in lines], ["sandbox", "job", "output", "ended"])
            self.assertEqual(lines[2]["output"]["bytes"], "hi\n")
            self.assertEqual((lines[3]["ended"]["outcome"], lines[3]["ended"]["code"]), ("exit", 3))
            self.assertEqual(self.warden.sandboxes(), {})

    def test_what_is_kept_stays(self):
        lines = self.run_once({"shell_line": "echo kept > ~/f"}, keep=True, sandbox={"id": "kept"})
        self.assertEqual(lines[0]["sandbox"]["id"], "kept")
        self.assertEqual(Sandbox(self.warden, "kept").run("cat ~/f").text, "kept\n")

    def test_a_job_that_cannot_start_leaves_no_sandbox(self):
        for job in ({"argv": ["/no/such/program"]}, {"argv": ["true"], "user": "nobody-here"}):
            with self.assertRaises(Refused):
                self.run_once(job)
        with self.assertRaises(Refused) as refused:
            self.run_once({"argv": ["true"]}, sandbox={"template": "none-such"})
        self.assertEqual(refused.exception.status, 404)
        with self.assertRaises(Refused) as refused:
            self.run_once({"argv": ["true"]}, kep=True)
        self.assertIn("keep", refused.exception.message)
        self.assertEqual(self.warden.sandboxes(), {})

    def test_another_s_sandbox_is_neither_used_nor_ended(self):
        mine = self.warden.create(id="mine")
        with self.assertRaises(Refused) as refused:
            self.run_once({"argv": ["true"]}, sandbox={"id": "mine"})
        self.assertEqual(refused.exception.status, 409)
        self.assertEqual(mine.run("echo still here").text, "still here\n")

    def test_it_does_not_outlive_the_warden(self):
        connection = self.warden.connection()
        connection.request("POST", "/run", body=json.dumps({"job": {"argv": ["sleep", "1000"]}}))
        wait_for(self.warden.sandboxes, "it runs")
        kept = self.warden.create(id="kept")
        os.kill(self.pons.role_pids()["warden"], signal.SIGKILL)
        wait_for(lambda: self.asked() == {"kept"}, "only the other is left")
        self.assertEqual(kept.run("echo still here").text, "still here\n")
        connection.close()

    def asked(self):
        try:
            return set(self.warden.sandboxes())
        except (OSError, Refused, http.client.HTTPException):
            return None

    def test_who_leaves_gives_the_sandbox_up(self):
        connection = self.warden.connection()
        connection.request("POST", "/run", body=json.dumps({"job": {"shell_line": "while echo x; do sleep 0.05; done"}}))
        response = connection.getresponse()
        self.assertIn("sandbox", json.loads(response.readline()))
        self.assertEqual(len(self.warden.sandboxes()), 1)
        connection.close()
        response.close()
        wait_for(lambda: not self.warden.sandboxes(), "the sandbox is gone")


class Idle(PonsTestCase):
    def test_a_sandbox_nobody_uses_keeps_only_its_first_process(self):
        pons = self.start("sandbox:\n  warm_min: 0\n  warm_max: 0\n")
        self.addCleanup(end_orderly, pons)
        sandbox = Warden(pons).create()
        (group,) = groups(pons).values()
        wait_for(lambda: len(processes_of(group)) == 2, "a shell waits for the first line")
        wait_for(lambda: len(processes_of(group)) == 1, "it is given back", seconds=20)
        self.assertEqual(sandbox.run("echo still here").text, "still here\n")


class Undertaker(PonsTestCase):
    def test_sandboxes_end_without_it_too(self):
        pons = self.start("sandbox:\n  warm_min: 0\n  warm_max: 0\n")
        self.addCleanup(end_orderly, pons)
        warden = Warden(pons)
        spawner = pons.role_pids()["spawner"]
        children = read_text(f"/proc/{spawner}/task/{spawner}/children").split()
        (undertaker,) = [pid for pid in children if read_text(f"/proc/{pid}/comm") == "undertaker\n"]
        os.kill(int(undertaker), signal.SIGKILL)
        for _ in range(3):
            sandbox = warden.create()
            self.assertEqual(sandbox.run("echo x").text, "x\n")
            sandbox.destroy()
        wait_for(lambda: not groups(pons), "their control groups are gone")
        self.assertEqual(glob.glob(f"{pons.state_dir}/spawner/cells/*"), [])
