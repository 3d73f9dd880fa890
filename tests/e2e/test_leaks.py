"""`pons doctor --leaks`: it finds what belongs to no sandbox, and nothing else."""

import contextlib
import ctypes
import glob
import json
import os
import signal
import socket
import struct
import subprocess
import sys

from pons_fixture import PonsTestCase, read_text, wait_for

UNKNOWN = "00000000deadbeef"

PIDFD_GETFD = 438

# Mounts a memory file system, or unmounts it, in another process's table.
MOUNT_THERE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid, verb, path = sys.argv[1:]
with open(f"/proc/{pid}/ns/mnt") as place:
    if libc.setns(place.fileno(), 0) != 0:
        sys.exit("setns")
if verb == "mount":
    os.mkdir(path)
    if libc.mount(b"none", path.encode(), b"tmpfs", 0, None) != 0:
        sys.exit("mount")
elif libc.umount2(path.encode(), 0) != 0:
    sys.exit("umount")
else:
    os.rmdir(path)
"""


def links_of(pid):
    """What the descriptors of a process are, by number."""
    links = {}
    for path in glob.glob(f"/proc/{pid}/fd/*"):
        with contextlib.suppress(FileNotFoundError):
            links[int(path.rsplit("/", 1)[1])] = os.readlink(path)
    return links


def copy_of(pid, number):
    """A descriptor of another process."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        copied = libc.syscall(PIDFD_GETFD, process, number, 0)
        if copied < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        return copied
    finally:
        os.close(process)


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
    def keeper_line(self, role):
        """The role's end of its line to the supervisor: neither end is the other process's too."""
        supervisors, pid = set(links_of(self.pons.pid).values()), self.pons.role_pids()[role]
        lines = []
        for number, link in links_of(pid).items():
            if not link.startswith("socket:") or link in supervisors:
                continue
            end = socket.socket(fileno=copy_of(pid, number))
            credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            if end.type == socket.SOCK_SEQPACKET and struct.unpack("iii", credentials)[0] == self.pons.pid:
                lines.append(end)
            else:
                end.close()
        self.assertEqual(len(lines), 1)
        with lines[0] as line:
            yield line

    def tell_supervisor(self, role, words, descriptors=()):
        """As the role does, which says nothing meanwhile. Its own questions may have answers waiting: all are alike."""
        with self.keeper_line(role) as line:
            socket.send_fds(line, [words.encode()], list(descriptors))

            def answer():
                with contextlib.suppress(BlockingIOError):
                    return line.recv(256, socket.MSG_DONTWAIT)

            self.assertEqual(wait_for(answer, "the supervisor answers"), b"ok")

    def kept_of_a_sandbox(self, ending):
        """The name and number of what the supervisor keeps of some sandbox."""
        kept = self.pons.ask("supervisor", "/kept")["kept"]
        return next((one["name"], one["number"]) for one in kept if one["name"].endswith(ending))

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

    def test_a_half_made_disk_is_found_and_goes_with_the_next_spawner(self):
        for name in ("16777216-4096.ext4.tmp-killed", "copy-killed"):
            path = f"{self.pons.state_dir}/spawner/images/{name}"
            with open(path, "wb") as image:
                image.truncate(1 << 20)
            self.assert_found("half-made file", path)
            os.kill(self.pons.role_pids()["spawner"], signal.SIGKILL)
            wait_for(lambda path=path: not os.path.exists(path), "it is gone")
            wait_for(lambda: self.pons.status()["ready"], "the next spawner is ready")
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

    def test_a_mount_in_the_spawners_own_table_is_found(self):
        spawner, path = self.pons.role_pids()["spawner"], f"{self.pons.state_dir}/spawner/stores/{UNKNOWN}"
        there = [sys.executable, "-c", MOUNT_THERE, str(spawner)]
        subprocess.run([*there, "mount", path], check=True)
        try:
            self.assert_found("mount", f"{path} of the spawner ({spawner})")
        finally:
            subprocess.run([*there, "umount", path], check=True)
        self.assertEqual(self.leaks(), [])

    def test_what_the_spawner_holds_goes_with_it_as_the_fix_says(self):
        self.sandbox("create", "--id", "one", "host")
        spawner, path = self.pons.role_pids()["spawner"], f"{self.pons.state_dir}/spawner/stores/{UNKNOWN}"
        subprocess.run([sys.executable, "-c", MOUNT_THERE, str(spawner), "mount", path], check=True)
        answer = json.loads(self.pons.command("doctor", "--leaks", "--json").stdout)
        (leak,) = answer["leaks"]
        command = leak["fix"].partition(";")[0]
        self.assertEqual(command, f"kill -9 {spawner}")
        subprocess.run(command.split(), check=True)
        wait_for(lambda: self.pons.role_pids()["spawner"] not in (0, spawner), "the next spawner starts")
        self.sandbox("exec", "one", "--", "true")
        self.assertEqual(self.leaks(), [])

    def test_a_namespace_and_a_socket_that_are_kept_for_no_sandbox_are_found(self):
        self.sandbox("create", "--id", "one", "host")
        with open("/proc/self/ns/net", encoding="ascii") as namespace:
            what = os.readlink(f"/proc/self/fd/{namespace.fileno()}")
            self.tell_supervisor("spawner", f"put {UNKNOWN}.1.net", [namespace.fileno()])
        self.assert_found("namespace", f"{UNKNOWN}.1.net ({what}), kept for spawner")
        self.tell_supervisor("spawner", f"drop {UNKNOWN}.1.net")
        self.assertEqual(self.leaks(), [])
        with socket.socket() as listener:
            what = os.readlink(f"/proc/self/fd/{listener.fileno()}")
            self.tell_supervisor("egress", f"put {UNKNOWN}.tcp", [listener.fileno()])
        self.assert_found("descriptor", f"{UNKNOWN}.tcp ({what}), kept for egress")
        self.tell_supervisor("egress", f"drop {UNKNOWN}.tcp")
        self.assertEqual(self.leaks(), [])

    def test_a_namespace_that_the_spawner_holds_for_no_sandbox_is_found(self):
        self.sandbox("create", "--id", "one", "host")
        for kind, ending in (("net", ".net"), ("user", ".user"), ("mnt", ".mount")):
            name, number = self.kept_of_a_sandbox(ending)
            copied = copy_of(self.pons.pid, number)
            self.addCleanup(os.close, copied)
            self.tell_supervisor("spawner", f"drop {name}")  # nothing says any more whose it is
            ((found, what),) = self.leaks()
            self.assertEqual(found, "namespace")
            self.assertRegex(what, f"^1 of kind {kind} in the spawner .* ready for the next ones$")
            self.tell_supervisor("spawner", f"put {name}", [copied])
            self.assertEqual(self.leaks(), [])

    def test_fifty_sandboxes_leave_nothing(self):
        for i in range(50):
            disk = ["--disk", "32M"] if i % 10 == 0 else []
            self.sandbox("create", "--id", "one", *disk, "host")
            self.sandbox("exec", "one", "--", "true")
            if i % 5 == 0:
                self.sandbox("fork", "one", "--id", "child")
                self.sandbox("rm", "one")
                self.sandbox("rm", "child")
            else:
                self.sandbox("rm", "one")
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
