"""No attack from inside a sandbox gets through; without a protection, one does and is noticed."""

import fcntl
import os
import re
import socket
import subprocess
import sys
import uuid

from pons_fixture import WEAKENED_DIR, PonsTestCase, process_state, read_link, read_text, wait_for
from sandbox_world import cell_of, groups
from warden_client import Warden, end_orderly, own_groups

NO_POOL = "sandbox:\n  warm_min: 0\n  warm_max: 0\n"
ATTACKS = os.environ["PONS_ATTACKS"]
INSIDE = "/tmp/attacks"

# Leaving out a protection must let at least these through.
NOTICED_BY = {
    # The spawner's own filter is inherited: what it may not do itself is refused without this one too.
    "seccomp": {"unshare", "clone", "odd_sockets", "clone3"},
    "capabilities": {"capabilities"},
    "no_new_privileges": {"new_privileges"},
    "masks": {"masked_files"},
    "sealed_settings": {"mount_flags"},
    "no_suid": {"mount_flags"},
    "user_namespace": {"identity"},
    "cgroup_namespace": {"cgroups"},
    "ipc_namespace": {"shared_memory"},
    "net_namespace": {"abstract_sockets"},
    "sealed_trees": {"mount_flags"},
    "pid_namespace": {"host_processes"},
    "no_dev": {"mount_flags"},
    "device_list": {"devices"},
}
# What the first process of a sandbox may have open: of the spawner's there is nothing.
OF_A_CELL = re.compile(r"/dev/null|socket:\[\d+\]|pipe:\[\d+\]|anon_inode:\[(eventpoll|signalfd)\]|/memfd:output.*")


def verdicts_of(job):
    found = {}
    for line in job.text.splitlines():
        name, verdict, *detail = line.split(" ", 2)
        found[name] = "" if verdict == "held" else " ".join([verdict, *detail])
    return found


class EscapeTestCase(PonsTestCase):
    def setUp(self):
        super().setUp()
        self.word = f"pons-escape-{uuid.uuid4().hex}"
        self.host_file = self.write_file("of-the-host", "precious")
        os.chmod(self.host_file, 0o666)
        self.host_process = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()", self.word], stdin=subprocess.PIPE
        )
        self.addCleanup(self.end_host_process)
        abstract = self.listener(socket.AF_UNIX, f"\0{self.word}")
        port = self.listener(socket.AF_INET, ("127.0.0.1", 0))
        locked = os.open("/usr/bin/env", os.O_RDONLY)
        self.addCleanup(os.close, locked)
        fcntl.flock(locked, fcntl.LOCK_EX)
        self.other_key = int(self.word[-6:], 16) + 1
        self.words = {
            "HOST_FILE": self.host_file,
            "HOST_PROCESS": self.word,
            "HOST_PID": str(self.host_process.pid),
            "HOST_SOCKET": self.word,
            "HOST_PORT": str(port.getsockname()[1]),
            "HOST_LOCKED": "/usr/bin/env",
            "OTHER_SOCKET": f"{self.word}-other",
            "OTHER_KEY": str(self.other_key),
        }
        self.listeners = (abstract, port)

    def start(self, *arguments, **options):
        """Ends in good order, so that its sandboxes go with it."""
        pons = super().start(*arguments, **options)
        self.addCleanup(end_orderly, pons)
        return pons

    def end_host_process(self):
        self.host_process.stdin.close()
        self.host_process.wait()

    def listener(self, family, address):
        server = socket.socket(family)
        self.addCleanup(server.close)
        server.bind(address)
        server.listen(4)
        server.setblocking(False)
        return server

    def armed_sandbox(self, warden, **request):
        sandbox = warden.create(**request)
        with open(ATTACKS, "rb") as program:
            sandbox.write(INSIDE, program.read(), mode="0755", user="root")
        return sandbox

    def with_neighbour(self, warden):
        """Another sandbox, which listens and shares; its jobs live until it is destroyed."""
        other = self.armed_sandbox(warden)
        jobs = [
            other.start(argv=[INSIDE, "--listen", self.words["OTHER_SOCKET"]]),
            other.start(argv=[INSIDE, "--share", self.words["OTHER_KEY"]]),
        ]
        for job in jobs:
            self.addCleanup(job.close)
            next(job)
            self.assertIn("output", next(job), "the other half of an attack did not start")
        return other

    def foreign_descriptors(self, pons):
        """What the first process of the only sandbox holds and should not."""
        (group,) = groups(pons).values()
        cell = cell_of(group)
        held = {fd: read_link(f"/proc/{cell}/fd/{fd}") for fd in os.listdir(f"/proc/{cell}/fd")}
        self.assertIn("0", held)
        return {target for target in held.values() if target and not OF_A_CELL.fullmatch(target)}

    def ids_of_two_sandboxes(self, warden):
        found = []
        for _ in range(2):
            first, outside, count = map(int, warden.create().run("cat /proc/self/uid_map").text.split())
            self.assertEqual(first, 0)
            found.append(range(outside, outside + count))
        return found

    def attack(self, sandbox, user, *only, **options):
        job = sandbox.run(argv=[INSIDE, *only], user=user, environment=self.words, **options)
        self.assertEqual((job.outcome, job.code), ("exit", 0), job)
        return verdicts_of(job)


class Attacks(EscapeTestCase):
    def host_view(self):
        settings = ("kernel/core_pattern", "kernel/hostname", "vm/overcommit_memory", "fs/file-max")
        return {
            **{name: read_text(f"/proc/sys/{name}") for name in settings},
            "env": os.stat("/usr/bin/env"),
            "usr": os.stat("/usr").st_mtime_ns,
            "null": os.stat("/dev/null").st_mode,
            "file": read_text(self.host_file),
            "swaps": read_text("/proc/swaps"),
        }

    def assert_host_unharmed(self, before):
        after = self.host_view()
        for view in (before, after):
            # Reading a program changes when it was read.
            view["env"] = (view["env"].st_mode, view["env"].st_uid, view["env"].st_nlink, view["env"].st_mtime_ns)
        self.assertEqual(before, after)
        self.assertIsNone(self.host_process.poll(), "a process of the host was killed")
        for server in self.listeners:
            with self.assertRaises(BlockingIOError, msg="somebody came out of the sandbox"):
                server.accept()

    def test_no_attack_of_root_or_of_a_user_gets_through(self):
        pons = self.start()
        warden = Warden(pons)
        self.with_neighbour(warden)
        before = self.host_view()
        for user in ("root", "user"):
            sandbox = self.armed_sandbox(warden)
            verdicts = self.attack(sandbox, user)
            self.assertGreater(len(verdicts), 50)
            self.assertEqual({name: what for name, what in verdicts.items() if what}, {}, user)
            alive = sandbox.run("echo alive")
            self.assertEqual(alive.output, b"alive\n", f"the sandbox did not survive the attacks of {user}: {alive}")
        self.assert_host_unharmed(before)
        self.assertTrue(all(role["restarts"] == 0 for role in pons.status()["roles"]))
        self.assertTrue(own_groups(pons), "the sandboxes have no control groups")
        self.assertEqual(end_orderly(pons), 0)
        self.assertEqual(own_groups(pons), [], "a control group is left")

    def test_the_first_process_holds_nothing_of_the_spawners(self):
        pons = self.start(NO_POOL)
        Warden(pons).create().run("true")
        self.assertEqual(self.foreign_descriptors(pons), set())

    def test_nobody_types_into_the_terminal_of_another(self):
        sandbox = self.armed_sandbox(Warden(self.start()))
        for user in ("root", "user"):
            verdicts = self.attack(sandbox, user, "typing", terminal={"rows": 24, "columns": 80})
            self.assertEqual(verdicts["typing"], "", user)

    def test_a_name_set_inside_stays_inside(self):
        before = socket.gethostname()
        sandbox = Warden(self.start()).create()
        sandbox.run("hostname escaped; echo escaped > /proc/sys/kernel/hostname", user="root")
        self.assertEqual(socket.gethostname(), before)

    def test_setuid_files_give_no_power(self):
        sandbox = self.armed_sandbox(Warden(self.start()))
        made = sandbox.run(f"cp {INSIDE} /tmp/su && chown root:root /tmp/su && chmod 6755 /tmp/su", user="root")
        self.assertEqual(made.code, 0, made)
        real, effective = sandbox.run(argv=["/tmp/su", "--whoami"], user="user").text.split()
        self.assertNotEqual(real, "0")
        self.assertEqual(effective, real)

    def test_root_by_setuid_where_it_is_allowed_is_root_of_the_sandbox_only(self):
        warden = Warden(self.start())
        host = next(info for info in warden.ask("GET", "/templates")["templates"] if info["name"] == "host")
        warden.put_template("sudo", kind="host", layers=host["layers"], weakening={"allow_sudo": True})
        self.with_neighbour(warden)
        sandbox = self.armed_sandbox(warden, template="sudo")
        sandbox.run(f"cp {INSIDE} /tmp/su && chmod 4755 /tmp/su", user="root")
        real, effective = sandbox.run(argv=["/tmp/su", "--whoami"], user="user").text.split()
        self.assertNotEqual(real, "0")
        self.assertEqual(effective, "0", "the weakening does nothing")
        job = sandbox.run(argv=["/tmp/su"], user="user", environment=self.words)
        through = {name: what for name, what in verdicts_of(job).items() if what}
        self.assertLessEqual(set(through), {"new_privileges", "mount_flags"}, through)
        self.assertIn("/ lacks 2", through.get("mount_flags", "/ lacks 2"))

    def test_files_and_processes_of_two_sandboxes_never_have_the_same_owner(self):
        pons = self.start()
        warden = Warden(pons)
        owners = []
        for _ in range(2):
            sandbox = warden.create()
            job = sandbox.start(f"exec sleep 600 {len(owners)}", user="root")
            self.addCleanup(job.close)
            identity = next(job)["job"]
            sandbox.run("cat /proc/self/uid_map")
            first, outside, count = map(int, sandbox.run("cat /proc/self/uid_map").text.split())
            self.assertEqual(first, 0)
            owners.append(range(outside, outside + count))
            self.assertTrue(identity)
        self.assertFalse(set(owners[0]) & set(owners[1]))
        for users in owners:
            running = wait_for(
                lambda: [
                    pid
                    for pid in filter(str.isdigit, os.listdir("/proc"))
                    if int(process_state(pid).get("Uid", "0").split()[0]) in users
                ],
                "processes of the sandbox as the host sees them",
            )
            self.assertTrue(running)


class Weakened(EscapeTestCase):
    def noticed_without(self, protection):
        binary = self.copy_program(f"{WEAKENED_DIR}/pons_sandbox_without_{protection}")
        pons = self.start(binary=binary)
        warden = Warden(pons)
        if protection in ("ipc_namespace", "net_namespace"):
            self.with_neighbour(warden)
        if protection == "ipc_namespace":
            self.addCleanup(subprocess.run, ["ipcrm", "-M", str(self.other_key)], capture_output=True)
        sandbox = self.armed_sandbox(warden)
        through = {}
        for name in NOTICED_BY[protection]:
            through.update(self.attack(sandbox, "root", name))
        end_orderly(pons)
        return {name for name, what in through.items() if what}


    def test_the_suite_notices_a_cell_that_holds_descriptors_of_the_spawner(self):
        pons = self.start(NO_POOL, binary=self.copy_program(f"{WEAKENED_DIR}/pons_sandbox_without_descriptors"))
        Warden(pons).create().run("true")
        self.assertNotEqual(self.foreign_descriptors(pons), set())

    def test_the_suite_notices_sandboxes_with_the_same_ids(self):
        pons = self.start(binary=self.copy_program(f"{WEAKENED_DIR}/pons_sandbox_without_uid_ranges"))
        one, other = self.ids_of_two_sandboxes(Warden(pons))
        self.assertTrue(set(one) & set(other))


def add_weakened_test(protection):
    def test(self):
        self.assertLessEqual(NOTICED_BY[protection], self.noticed_without(protection))

    setattr(Weakened, f"test_the_suite_notices_a_sandbox_without_{protection}", test)


for left_out in NOTICED_BY:
    add_weakened_test(left_out)
