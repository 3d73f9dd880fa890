"""Sandboxes with a disk: `--disk` through the whole of Pons, and what is left of it after an end of any kind."""

import glob
import json
import os
import signal
import time

from pons_fixture import PonsTestCase, read_text, wait_for


def images():
    """Names of the files of sandboxes behind the host's loop devices."""
    found = set()
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            name = os.path.basename(read_text(path).strip())
        except OSError:
            continue
        if name.startswith("copy-"):
            found.add(name)
    return found


class Disk(PonsTestCase):
    def setUp(self):
        super().setUp()
        self.before = images()
        self.pons = self.start()
        self.addCleanup(self.end, self.pons)

    @staticmethod
    def end(pons):
        """In order: sandboxes outlive a Pons that is killed."""
        if pons.process.poll() is None:
            pons.signal(signal.SIGTERM)
            pons.wait_until_ended()

    def sandbox(self, verb, *words, code=0):
        done = self.run_pons("sandbox", verb, "--state-dir", self.pons.state_dir, *words)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def create(self):
        self.sandbox("create", "--id", "work", "--disk", "256M", "host")
        self.sandbox("exec", "work", "-c", "echo kept > f")
        own = images() - self.before
        self.assertTrue(own)
        return own

    def wait_until_gone(self, own):
        wait_for(lambda: not own & images(), "the loop devices are free")
        self.assertEqual(glob.glob(f"{self.pons.state_dir}/spawner/images/copy-*"), [])

    def test_a_command_writes_more_than_its_memory_and_nothing_is_left(self):
        line = "head -c 300M /dev/zero > big && stat -c %s big; df -k --output=size / | tail -1"
        said = self.sandbox("run", "--disk", "1G", "--memory", "128M", "host", "--", "sh", "-c", line)
        self.assertEqual(said.split(), ["314572800", "1048576"])
        self.wait_until_gone(images() - self.before)
        self.assertEqual(self.pons.stop(), 0)

    def test_a_full_disk_is_an_error_of_the_command_alone(self):
        line = "head -c 100M /dev/zero > big || echo full; rm big; echo alive > f; cat f"
        said = self.sandbox("run", "--disk", "64M", "host", "--", "sh", "-c", line)
        self.assertEqual(said.split(), ["full", "alive"])

    def test_a_size_that_cannot_be_had_is_refused_with_a_reason(self):
        self.assertIn("disk_bytes", self.sandbox("create", "--disk", "1M", "host", code=1))
        self.assertIn("disk_bytes", self.sandbox("create", "--disk", "2T", "host", code=1))
        self.assertEqual(images() - self.before, set())

    def test_its_speed_is_limited_or_the_missing_controller_is_named(self):
        host = json.loads(self.run_pons("doctor", "--state-dir", self.pons.state_dir, "--json").stdout)
        offered = next(f for f in host["host"] if f["name"] == "sandbox io limits")["found"] == "yes"
        words = ["--id", "slow", "--disk", "64M", "--io-write", "4M", "--iops-read", "1000", "host"]
        if not offered:
            self.assertRegex(self.sandbox("create", *words, code=1), "(io|blkio) controller of cgroup")
            return
        self.sandbox("create", *words)
        before = time.monotonic()
        self.sandbox("exec", "slow", "-c", "dd if=/dev/zero of=f bs=1M count=12 oflag=direct")
        self.assertGreater(time.monotonic() - before, 1.5)
        top = json.loads(self.sandbox("top", "--once", "--json"))["sandboxes"][0]["metrics"]
        self.assertGreaterEqual(top["io_write_bytes"], 12 << 20)
        self.assertGreaterEqual(top["io_write_operations"], 12)
        self.assertIn("io_write_bytes_per_second", self.sandbox("inspect", "slow", "--json"))

    def test_it_outlives_a_killed_spawner_and_ends_with_its_sandbox(self):
        own = self.create()
        old = self.pons.role_pids()["spawner"]
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: self.pons.role_pids()["spawner"] not in (0, old), "another spawner starts")
        self.sandbox("checkpoint", "work", "before")
        self.sandbox("exec", "work", "-c", "rm f")
        self.sandbox("rollback", "work", "before")
        self.assertEqual(self.sandbox("exec", "work", "--", "cat", "f"), "kept\n")
        self.sandbox("rm", "work")
        self.wait_until_gone(own)

    def test_nothing_is_left_when_all_of_pons_is_killed(self):
        own = self.create()
        self.pons.destroy()
        again = self.start(state_dir=self.pons.state_dir)  # ends what the former run left
        self.addCleanup(self.end, again)
        self.wait_until_gone(own)
