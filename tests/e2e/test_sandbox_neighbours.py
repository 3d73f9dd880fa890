"""What one sandbox does reaches no other, and no earlier state of itself."""

import os
import signal
import time

from pons_fixture import PonsTestCase, wait_for
from warden_client import Refused, Warden, end_orderly, own_groups

HOST_LAYER = "0" * 64


class SandboxTestCase(PonsTestCase):
    def setUp(self):
        super().setUp()
        self.pons = self.start()
        self.addCleanup(end_orderly, self.pons)
        self.warden = Warden(self.pons)
        self.sandbox = self.warden.create()
        self.other = self.warden.create()

    def python(self, sandbox, program, user="root"):
        job = sandbox.run(argv=["/usr/bin/python3", "-c", program], user=user)
        self.assertEqual((job.outcome, job.code), ("exit", 0), job)
        return job.text.strip()


class Neighbours(SandboxTestCase):
    def test_a_mount_namespace_made_inside_does_not_reach_a_checkpoint_or_a_fork(self):
        self.warden.put_template("nested", kind="host", layers=[HOST_LAYER],
                                 weakening={"allow_nested_user_namespaces": True})
        sandbox = self.warden.create(template="nested")
        self.assertEqual(sandbox.run("echo before > /tmp/f").code, 0)
        alias = sandbox.run("setsid unshare -Urm sh -c 'while :; do echo alias > /tmp/f; echo x > /tmp/g; sleep 0.1; done' "
                            ">/dev/null 2>&1 </dev/null & sleep 0.5; rm -f /tmp/g; cat /tmp/f")
        self.assertEqual(alias.text, "alias\n", "the test needs a second mount that can be written")
        deadline = time.monotonic() + 20
        while True:
            try:
                sandbox.ask("POST", "/checkpoints", {"name": "held"})
                break
            except Refused as refused:  # it writes at this very moment
                self.assertIn("busy_writers", refused.message)
                self.assertLess(time.monotonic(), deadline)
        kept = sandbox.run("stat -c %Y.%i /tmp/f").text
        time.sleep(1)
        sandbox.ask("POST", "/checkpoints/held/rollback", {})
        self.assertEqual(sandbox.run("stat -c %Y.%i /tmp/f").text, kept, "the checkpoint was written to")

    def test_a_hole_in_a_file_costs_a_snapshot_nothing(self):
        self.assertEqual(self.sandbox.run("truncate -s 3G /tmp/hole; echo tail >> /tmp/hole", user="root").code, 0)
        self.sandbox.ask("POST", "/snapshot", {"template": "holes"}, seconds=120)
        layers = f"{self.pons.state_dir}/spawner/layers"
        used = sum(os.lstat(os.path.join(path, name)).st_blocks * 512
                   for path, _, names in os.walk(layers) for name in names)
        self.assertLess(used, 256 << 20)
        twin = self.warden.create(template="holes")
        self.assertEqual(twin.run("tail -c 5 /tmp/hole; stat -c %s /tmp/hole").text, f"tail\n{(3 << 30) + 5}\n")

    def test_attributes_of_a_user_do_not_become_the_overlay_s(self):
        self.python(self.sandbox, "import os; os.setxattr('/etc', 'user.overlay.opaque', b'y')")
        self.sandbox.ask("POST", "/snapshot", {"template": "marked"}, seconds=60)
        twin = self.warden.create(template="marked")
        self.assertEqual(twin.run("id -un").text, "user\n", "/etc lost what lies below")

    def test_one_sandbox_cannot_take_every_terminal(self):
        taken = self.python(self.sandbox, """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (16384, 16384))
fds = []
try:
    while True: fds.append(os.open('/dev/ptmx', os.O_RDWR))
except OSError: print(len(fds))
""")
        self.assertLessEqual(int(taken), 128)

    def test_the_host_s_budget_of_asynchronous_io_is_out_of_reach(self):
        self.assertEqual(self.python(self.sandbox, """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
context = ctypes.c_ulong(0)
libc.syscall(206, 128, ctypes.byref(context))
print(errno.errorcode[ctypes.get_errno()])
"""), "ENOSYS")

    def test_pairs_of_sockets_are_of_the_local_family_only(self):
        self.assertEqual(self.python(self.sandbox, """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
pair = (ctypes.c_int * 2)()
for family in (30, 38, 40):
    assert libc.socketpair(family, 1, 0, pair) == -1
    print(errno.errorcode[ctypes.get_errno()])
assert libc.socketpair(1, 1, 0, pair) == 0
"""), "EPERM\nEPERM\nEPERM")


class Transactions(SandboxTestCase):
    def test_input_for_a_job_that_is_not_there_yet_does_not_cost_it_its_transaction(self):
        status, _ = self.warden.raw("POST", f"{self.sandbox.base}/jobs/later/input", b"x")
        self.assertEqual(status, 404)
        job = self.sandbox.run("echo dirty > /tmp/dirty", id="later", transaction="rollback_always")
        self.assertTrue(job.ended["rolled_back"], job)
        self.assertNotEqual(self.sandbox.run("test -e /tmp/dirty").code, 0)


class Frozen(SandboxTestCase):
    def test_a_paused_sandbox_can_be_ended_after_the_spawner_was_killed(self):
        self.sandbox.ask("POST", "/pause")
        os.kill(self.pons.role_pids()["spawner"], signal.SIGKILL)
        wait_for(lambda: self.pons.role("spawner")["state"] == "ready", "the spawner is back")
        self.sandbox.destroy()
        self.assertEqual(end_orderly(self.pons), 0)
        self.assertEqual(own_groups(self.pons), [])
