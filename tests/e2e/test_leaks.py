"""`pons doctor --leaks`: it finds what belongs to no sandbox, and nothing else."""

import contextlib
import glob
import json
import os
import signal
import socket
import subprocess

from pons_fixture import PonsTestCase, read_text, wait_for

UNKNOWN = "00000000deadbeef"


class Leaks(PonsTestCase):
    def setUp(self):
        super().setUp()
        self.pons = self.start()
        self.addCleanup(self.end)

    def end(self):
        """In order: sandboxes outlive a Pons that is killed."""
        if self.pons.process.poll() is None:
            self.pons.signal(signal.SIGTERM)
            self.pons.wait_until_ended()

    def sandbox(self, verb, *words):
        done = self.run_pons("sandbox", verb, "--state-dir", self.pons.state_dir, *words)
        self.assertEqual(done.returncode, 0, done.stderr)

    def leaks(self):
        """Pairs of kind and place; the exit status and the text for people agree with them."""
        done = self.pons.command("doctor", "--leaks", "--json")
        self.assertEqual(done.stderr, "")
        answer = json.loads(done.stdout)
        self.assertEqual(done.returncode, 1 if answer["leaks"] else 0)
        self.assertTrue(all(leak["fix"] for leak in answer["leaks"]))
        return [(leak["kind"], leak["what"]) for leak in answer["leaks"]]

    def assert_found(self, kind, what):
        self.assertEqual(self.leaks(), [(kind, what)])
        text = self.pons.command("doctor", "--leaks")
        self.assertEqual(text.returncode, 1)
        self.assertIn(what, text.stdout)

    @contextlib.contextmanager
    def planted_group(self):
        instance = read_text(f"{self.pons.state_dir}/spawner/instance").strip()
        home = read_text(f"{self.pons.state_dir}/spawner/cgroup-home").splitlines()[-1]
        path = f"{home}/pons-{instance}-{UNKNOWN}"
        os.mkdir(path)
        try:
            yield path
        finally:
            os.rmdir(path)

    def test_sandboxes_in_any_state_are_no_leaks(self):
        self.assertEqual(self.leaks(), [])
        self.sandbox("create", "--id", "one", "host")
        self.sandbox("exec", "one", "-d", "--", "sleep", "1000")
        self.sandbox("create", "--id", "disk", "--disk", "64M", "host")
        self.sandbox("exec", "disk", "-c", "echo kept > f")
        self.sandbox("fork", "disk", "--id", "child")
        self.sandbox("pause", "one")
        self.assertEqual(self.leaks(), [])
        self.sandbox("rm", "disk")  # the fork still stands on its disk
        self.sandbox("rm", "one")
        self.assertEqual(self.leaks(), [])
        self.sandbox("rm", "child")
        self.assertEqual(self.leaks(), [])
        self.assertIn("Nothing is left over", self.pons.command("doctor", "--leaks").stdout)

    def test_sandboxes_that_come_and_go_meanwhile_are_no_leaks(self):
        line = 'while :; do "$0" sandbox run --state-dir "$1" host -- true || exit 1; done'
        churn = subprocess.Popen(["sh", "-c", line, self.binary, self.pons.state_dir], start_new_session=True)
        try:
            for _ in range(10):
                self.assertEqual(self.leaks(), [])
            self.assertIsNone(churn.poll())
        finally:
            os.killpg(churn.pid, signal.SIGKILL)
            churn.wait()

    def test_after_a_killed_warden_and_a_killed_spawner_there_are_none(self):
        self.sandbox("create", "--id", "one", "host")
        for role in ("warden", "spawner"):
            old = self.pons.role_pids()[role]
            os.kill(old, signal.SIGKILL)
            wait_for(lambda: self.pons.role_pids()[role] not in (0, old), "another one starts")
            self.sandbox("exec", "one", "--", "true")
            self.assertEqual(self.leaks(), [])

    def test_a_control_group_is_found(self):
        with self.planted_group() as path:
            self.assert_found("control group", path)
        self.assertEqual(self.leaks(), [])

    def test_a_process_is_found_and_its_group(self):
        with self.planted_group() as path, subprocess.Popen(["sleep", "1000"]) as process:
            try:
                with open(f"{path}/cgroup.procs", "w", encoding="ascii") as file:
                    file.write(str(process.pid))
                self.assertEqual(
                    sorted(self.leaks()), [("control group", path), ("process", f"{process.pid} (sleep)")]
                )
            finally:
                process.kill()
                process.wait()
        self.assertEqual(self.leaks(), [])

    def test_a_socket_file_is_found(self):
        path = f"{self.pons.state_dir}/spawner/cells/{UNKNOWN}"
        with socket.socket(socket.AF_UNIX) as planted:
            planted.bind(path)
            self.assert_found("socket file", path)
        os.unlink(path)
        self.assertEqual(self.leaks(), [])

    def test_a_half_made_layer_is_found(self):
        path = f"{self.pons.state_dir}/spawner/layers/.tmp-killed"
        os.mkdir(path)
        self.assert_found("half-made file", path)
        os.rmdir(path)
        self.assertEqual(self.leaks(), [])

    def test_a_mount_is_found(self):
        path = f"{self.pons.state_dir}/spawner/stores/with blank"
        os.mkdir(path)
        subprocess.run(["mount", "-t", "tmpfs", "none", path], check=True)
        try:
            self.assert_found("mount", path)
        finally:
            subprocess.run(["umount", path], check=True)
            os.rmdir(path)
        self.assertEqual(self.leaks(), [])

    def test_a_disk_without_a_sandbox_is_found(self):
        path = f"{self.pons.state_dir}/spawner/images/planted"
        with open(path, "wb") as image:
            image.truncate(1 << 20)
        device = subprocess.run(["losetup", "-f", "--show", path], check=True, capture_output=True, text=True)
        os.unlink(path)
        try:
            self.assertEqual([kind for kind, _ in self.leaks()], ["loop device"])
        finally:
            subprocess.run(["losetup", "-d", device.stdout.strip()], check=True)
        self.assertEqual(self.leaks(), [])

    def test_what_another_pons_has_is_none_of_ours(self):
        other = self.start(state_dir=f"{self.directory}/other")
        self.addCleanup(lambda: (other.signal(signal.SIGTERM), other.wait_until_ended()))
        self.addCleanup(self.end)  # both run the same copy of the program
        self.assertEqual(self.leaks(), [])

    def test_all_that_a_killed_pons_left_is_found_until_the_next_start(self):
        self.sandbox("create", "--id", "one", "host")
        self.pons.process.kill()
        self.pons.wait_until_ended()
        self.assertEqual({kind for kind, _ in self.leaks()}, {"control group", "process", "socket file"})
        self.pons = self.start(state_dir=self.pons.state_dir)
        self.assertEqual(self.leaks(), [])

    def test_a_stopped_pons_left_none(self):
        self.sandbox("create", "--id", "one", "--disk", "64M", "host")
        self.end()
        self.assertEqual(self.leaks(), [])
        self.assertEqual(glob.glob(f"{self.pons.state_dir}/spawner/cells/*"), [])

    def test_only_root_gets_an_answer_and_only_where_pons_was(self):
        done = self.run_pons("doctor", "--leaks", "--state-dir", self.pons.state_dir, user=12345)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("root", done.stderr)
        done = self.run_pons("doctor", "--leaks", "--state-dir", f"{self.directory}/nothing-here")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("nothing-here", done.stderr)
