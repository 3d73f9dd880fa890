"""Bad input and greed: every limit is a named outcome, and the sandbox and Pons outlive it."""

import itertools
import os

from pons_fixture import LONG, PonsTestCase, process_state, wait_for
from warden_client import Refused, Warden, as_bytes, end_orderly

MEBIBYTE = 1 << 20
FLOOD_BYTES = (10 << 30) if LONG else (1 << 30)
SMALL = {"memory_bytes": 128 * MEBIBYTE, "pids": 64}
LONG_SECONDS = 600


class LimitsTestCase(PonsTestCase):
    def setUp(self):
        super().setUp()
        self.pons = self.start()
        self.addCleanup(end_orderly, self.pons)
        self.warden = Warden(self.pons)

    def sandbox(self, **limits):
        return self.warden.create(limits={**SMALL, **limits})

    def assert_alive(self, sandbox):
        job = sandbox.run("echo alive")
        self.assertEqual((job.outcome, job.code, job.output), ("exit", 0, b"alive\n"), job)

    def assert_refused(self, kind, call, *arguments, **options):
        with self.assertRaises(Refused) as caught:
            call(*arguments, **options)
        self.assertEqual(caught.exception.type, kind, caught.exception)
        return caught.exception


class Greed(LimitsTestCase):
    def test_a_fork_bomb_stays_below_its_limit_and_ends_with_its_job(self):
        sandbox = self.sandbox()
        lines = sandbox.start("f() { f | f & }; (f); read never", timeout_ms=3000, user="user", input_open=True)
        first = next(lines)
        self.assertLessEqual(sandbox.metrics()["pids"], SMALL["pids"])
        job = sandbox.collect(itertools.chain([first], lines))
        self.assertEqual(job.outcome, "timeout", job)
        self.assertIn(f"too many processes: the limit is {SMALL['pids']}", job.ended["note"])
        # What is left are the first process and at most the shell that waits for its first line.
        wait_for(lambda: sandbox.metrics()["pids"] <= 2, "the bomb ends with its job")
        self.assert_alive(sandbox)
        sandbox.destroy()
        self.assert_alive(self.sandbox())

    def test_a_memory_bomb_is_named_and_the_sandbox_can_be_used_again(self):
        sandbox = self.sandbox()
        job = sandbox.run(argv=["/usr/bin/python3", "-c", "x = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1"])
        self.assertEqual(job.outcome, "oom", job)
        self.assertIn("duration_ms", job.ended)
        self.assertIn(f"out of memory: the limit is {SMALL['memory_bytes']} bytes", job.ended["note"])
        self.assertGreaterEqual(sandbox.metrics()["oom_kills"], 1)
        self.assert_alive(sandbox)

    def test_a_full_disk_is_enospc_and_no_kill(self):
        sandbox = self.sandbox()
        job = sandbox.run("dd if=/dev/zero of=/tmp/fill bs=1M count=1024", user="root")
        self.assertEqual((job.outcome, job.code), ("exit", 1), job)
        self.assertIn(b"No space left", job.error)
        self.assertRegex(job.ended["note"], r"^disk full: \d+ of \d+ bytes are in use$")
        self.assertEqual(sandbox.metrics()["oom_kills"], 0)
        self.assert_alive(sandbox)
        self.assertEqual(sandbox.run("rm /tmp/fill && echo x > /tmp/again", user="root").code, 0)

    def test_many_small_files_are_enospc_and_no_kill(self):
        # The kernel's notes about each of them are memory of the sandbox, too.
        line = (
            "import errno\nnumber = 0\ntry:\n  while True:\n    number += 1\n"
            "    with open(f'/tmp/small{number}', 'wb') as file: file.write(bytes(4096))\n"
            "except OSError as error: print(errno.errorcode[error.errno], number > 5000)"
        )
        for limits in ({"memory_bytes": 512 * MEBIBYTE}, {"disk_bytes": 24 * MEBIBYTE, "disk_inodes": 30_000}):
            sandbox = self.sandbox(**limits)
            job = sandbox.run(argv=["/usr/bin/python3", "-c", line])
            self.assertEqual((job.outcome, job.code, job.output), ("exit", 0, b"ENOSPC True\n"), job)
            self.assertEqual(sandbox.metrics()["oom_kills"], 0)
            self.assert_alive(sandbox)

    def test_output_of_jobs_that_ended_leaves_room_for_others(self):
        sandbox = self.sandbox()
        for _ in range(40):
            job = sandbox.run(argv=["/usr/bin/head", "-c", str(8 << 20), "/dev/zero"])
            self.assertEqual((job.outcome, len(job.output)), ("exit", 8 << 20), job.ended)
        self.assertEqual(sandbox.metrics()["oom_kills"], 0)
        self.assertLess(sandbox.metrics()["memory_bytes"], SMALL["memory_bytes"] // 2)
        self.assert_alive(sandbox)

    def test_what_is_copied_for_a_fork_counts_as_its_origins_memory(self):
        sandbox = self.sandbox(memory_bytes=256 * MEBIBYTE)
        self.assertEqual(sandbox.run("head -c 50000000 /dev/zero > ~/big").code, 0)
        job = sandbox.start("sleep 600")
        self.addCleanup(job.close)
        next(job)
        before = sandbox.metrics()["memory_bytes"]
        fork = sandbox.ask("POST", "/fork", {"id": "copy"})
        self.assertEqual(fork["id"], "copy")
        grown = sandbox.metrics()["memory_bytes"] - before
        # Version 2 lets nobody into a frozen group who is to go on.
        if os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes"):
            self.assertGreater(grown, 45_000_000)
        self.assertEqual(sandbox.metrics()["oom_kills"], 0)
        self.assert_alive(sandbox)

    def test_a_full_disk_is_told_to_writers_of_files_too(self):
        sandbox = self.sandbox(disk_bytes=16 * MEBIBYTE)
        with self.assertRaises(Refused) as caught:
            sandbox.write("/tmp/fill", bytes(32 * MEBIBYTE), user="root")
        self.assertIn("space", caught.exception.message.lower())
        self.assert_alive(sandbox)

    def test_inodes_run_out_as_enospc(self):
        sandbox = self.sandbox(disk_bytes=16 * MEBIBYTE, disk_inodes=1000)
        job = sandbox.run("mkdir /tmp/d && cd /tmp/d && for i in $(seq 2000); do : > $i || exit 9; done", user="root")
        self.assertEqual(job.outcome, "exit", job)
        self.assertNotEqual(job.code, 0, job)
        self.assertIn(b"No space left", job.error)
        self.assertRegex(job.ended["note"], r"^too many files: \d+ of 1000 inodes are in use$")
        self.assertEqual(sandbox.metrics()["oom_kills"], 0)
        self.assert_alive(sandbox)

    def resident(self, pid):
        return int(process_state(pid).get("VmRSS", "0 kB").split()[0]) * 1024

    def test_a_flood_of_output_is_followed_in_bounded_memory(self):
        sandbox = self.sandbox()
        warden_pid = self.pons.role_pids()["warden"]
        before = self.resident(warden_pid)
        seen, most = 0, 0
        for line in sandbox.start(f"head -c {FLOOD_BYTES} /dev/zero", seconds=LONG_SECONDS):
            if "output" in line:
                seen += len(as_bytes(line["output"]["bytes"])) + line["output"].get("lost", 0)
                most = max(most, self.resident(warden_pid))
            ended = line.get("ended")
        self.assertEqual((ended["outcome"], ended["code"]), ("exit", 0))
        self.assertEqual(ended["output_bytes"], FLOOD_BYTES)
        self.assertEqual(seen, FLOOD_BYTES, "bytes are neither shown nor counted as lost")
        self.assertLess(most - before, 64 * MEBIBYTE)
        self.assertEqual(sandbox.metrics().get("oom_kills", 0), 0)

    def test_nobody_listening_to_a_flood_costs_nothing(self):
        sandbox = self.sandbox()
        job = sandbox.start(f"head -c {256 * MEBIBYTE} /dev/zero")
        identity = next(job)["job"]
        job.close()
        jobs = lambda: {job["id"]: job for job in sandbox.ask("GET", "/jobs")["jobs"]}
        wait_for(lambda: jobs()[identity]["outcome"] == "exit", "the job ends unheard")
        self.assertEqual(jobs()[identity]["output_bytes"], 256 * MEBIBYTE)
        self.assertLess(sandbox.metrics()["memory_bytes"], 100 * MEBIBYTE)

    def test_too_much_output_is_a_named_outcome(self):
        job = self.sandbox().run("yes", output_bytes_max=100_000)
        self.assertEqual(job.outcome, "output_limit", job.ended)
        self.assertGreaterEqual(job.ended["output_bytes"], 100_000)

    def test_a_timeout_is_a_named_outcome_even_for_one_who_ignores_signals(self):
        job = self.sandbox().run("trap '' TERM INT HUP; while :; do sleep 1; done", timeout_ms=300)
        self.assertEqual(job.outcome, "timeout", job)
        self.assertGreaterEqual(job.ended["duration_ms"], 300)

    def test_a_job_that_ignores_sigterm_ends_by_sigkill(self):
        sandbox = self.sandbox()
        job = sandbox.start("trap '' TERM; echo ready; while :; do sleep 1; done")
        identity = next(job)["job"]
        self.assertIn("output", next(job))
        sandbox.signal(identity, 15)
        self.assertEqual(sandbox.ask("GET", "/jobs")["jobs"][-1]["outcome"], "running")
        sandbox.signal(identity, 9)
        ended = sandbox.collect(job)
        self.assertEqual((ended.outcome, ended.code), ("signal", 9), ended)

    def test_open_files_run_out_as_emfile(self):
        line = "import os\nfds = []\ntry:\n  while True: fds.append(os.open('/dev/null', 0))\nexcept OSError as e: print(e.errno, len(fds))"
        job = self.sandbox().run(argv=["/usr/bin/python3", "-c", line], open_files_max=50)
        number, count = map(int, job.text.split())
        self.assertEqual(number, 24)
        self.assertLess(count, 50)

    def test_zombies_are_reaped(self):
        sandbox = self.sandbox()
        # Grandchildren whose parents are gone become children of PID 1.
        job = sandbox.run("i=0; while [ $i -lt 500 ]; do (true & ); i=$((i+1)); done; echo done")
        self.assertEqual(job.output, b"done\n", job)
        count = "n=0; for s in /proc/[0-9]*/stat; do read a b c d < $s && [ \"$c\" = Z ] && n=$((n+1)); done; echo $n"
        wait_for(lambda: sandbox.run(count).output == b"0\n", "no zombie is left")

    def test_escapees_into_sessions_of_their_own_end_with_the_sandbox(self):
        sandbox = self.sandbox()
        word = f"98765{os.getpid()}"
        job = sandbox.run(f"setsid sh -c 'setsid sleep {word} & setsid sleep {word} &' & sleep 0.3")
        self.assertEqual(job.outcome, "exit", job)

        def running():
            found = []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        arguments = file.read().split(b"\0")
                except OSError:
                    continue
                if word.encode() in arguments:
                    found.append(pid)
            return found

        sandbox.destroy()
        wait_for(lambda: not running(), "the escapees are gone")

    def test_idle_and_total_lifetime_end_a_sandbox(self):
        short = self.sandbox(lifetime_max_ms=700)
        self.assertIn("ends_unix_ms", short.info())
        idle = self.sandbox(idle_max_ms=700)
        job = short.start("sleep 600")
        next(job)

        def gone(sandbox):
            found = self.warden.sandboxes().get(sandbox.id)
            return found is None or found["state"] == "ended"

        self.assertEqual(short.collect(job).outcome, "interrupted")
        wait_for(lambda: gone(short), "the end of its life")
        wait_for(lambda: gone(idle), "the end of its idling")


class Files(LimitsTestCase):
    def setUp(self):
        super().setUp()
        self.host_file = self.write_file("precious", "precious")
        os.chmod(self.host_file, 0o666)
        os.chmod(self.directory, 0o777)

    def test_links_and_dots_lead_nowhere_but_inside(self):
        sandbox = self.sandbox()
        tricks = [self.host_file, f"/../../..{self.host_file}", f"/proc/1/root{self.host_file}", "/tmp/link", "/tmp/up" + self.host_file]
        sandbox.run(f"ln -s {self.host_file} /tmp/link; ln -s ../../../../.. /tmp/up; ln -s /proc/1/root /tmp/first", user="root")
        for path in [*tricks, "/tmp/first" + self.host_file]:
            for user in ("root", "user"):
                with self.assertRaises(Refused, msg=path):
                    sandbox.read(path, user=user)
        for path in tricks:
            try:
                sandbox.write(path, b"evil", user="root")
            except Refused:
                pass
        with open(self.host_file, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")
        self.assert_alive(sandbox)

    def test_special_files_are_refused_and_nobody_waits(self):
        sandbox = self.sandbox()
        sandbox.run("mkfifo /tmp/pipe; ln -s /dev/zero /tmp/zero; ln -s loop /tmp/loop", user="root")
        for path in ("/tmp/pipe", "/tmp/loop", "/tmp", "/nothing"):
            with self.assertRaises(Refused, msg=path):
                sandbox.read(path, user="root")
        for path in ("/proc/sys/kernel/hostname", "/usr/x", "/dev/null"):
            with self.assertRaises(Refused, msg=path):
                sandbox.write(path, b"x", user="root")
        with self.assertRaises(Refused):
            sandbox.write("/tmp/pipe", b"x", user="root", append="true")
        # A new file takes the place of whatever has its name.
        for path in ("/tmp/pipe", "/tmp/zero"):
            sandbox.write(path, b"x", user="root")
            self.assertEqual(sandbox.stat(path, user="root")["kind"], "file")
        self.assert_alive(sandbox)

    def test_files_of_another_user_are_as_closed_as_inside(self):
        sandbox = self.sandbox()
        sandbox.write("/root/secret", b"x", user="root", mode="0600")
        self.assert_refused("denied", sandbox.read, "/root/secret", user="user")
        self.assert_refused("denied", sandbox.write, "/etc/passwd", b"x", user="user")

    def test_a_write_does_not_reach_through_a_hard_link(self):
        sandbox = self.sandbox()
        sandbox.run("cp /bin/true /tmp/su; chmod 6755 /tmp/su; echo one > /tmp/a; ln /tmp/a /tmp/b", user="root")
        self.assertEqual(sandbox.stat("/tmp/su", user="root")["mode"] & 0o7777, 0o6755)
        sandbox.write("/tmp/a", b"two", user="root")
        # The file was replaced: its other name still has the old bytes.
        self.assertEqual(sandbox.read("/tmp/b", user="root"), b"one\n")
        self.assertEqual(sandbox.read("/tmp/a", user="root"), b"two")

    def test_names_may_be_long_and_of_any_bytes(self):
        sandbox = self.sandbox()
        names = [b"/tmp/" + b"n" * 255, b"/tmp/\xff\xfe\x80", b"/tmp/a\nb\"\\%00 c", b"/tmp/" + b"/".join([b"d" * 200] * 19) + b"/f"]
        for name in names:
            sandbox.write(name, name, user="root")
            self.assertEqual(sandbox.read(name, user="root"), name)
            self.assertEqual(as_bytes(sandbox.stat(name, user="root")["path"]), name)
        for name in (b"/tmp/" + b"n" * 256, b"/" + b"x/" * 4096, b"/tmp/a\0b", b""):
            with self.assertRaises(Refused, msg=name[:40]):
                sandbox.write(name, b"x", user="root")
        listed = {as_bytes(file["path"]) for file in sandbox.list("/tmp", user="root")}
        self.assertLessEqual(set(names[:3]), listed)

    def test_a_hundred_thousand_files_are_listed_within_bounds(self):
        sandbox = self.sandbox(memory_bytes=1024 * MEBIBYTE, disk_inodes=200_000, disk_bytes=256 * MEBIBYTE)
        line = "import os\nos.mkdir('/tmp/m')\nfor i in range(100000): open(f'/tmp/m/{i}', 'x').close()"
        made = sandbox.run(argv=["/usr/bin/python3", "-c", line], user="root")
        self.assertEqual(made.code, 0, made)
        listed = {file["path"] for file in sandbox.list("/tmp/m", user="root") if file["kind"] == "file"}
        self.assertEqual(listed, {f"/tmp/m/{number}" for number in range(100_000)})
        self.assert_alive(sandbox)


class Transactions(LimitsTestCase):
    def test_a_checkpoint_under_a_writer_is_refused_and_changes_nothing(self):
        sandbox = self.sandbox()
        job = sandbox.start("exec 5> /tmp/open; echo ready; while read x; do echo $x >&5; done; cat /tmp/open", input_open=True, user="root")
        identity = next(job)["job"]
        self.assertIn("output", next(job))
        refused = self.assert_refused("conflict", sandbox.checkpoint, "c")
        self.assertIn("busy_writers", refused.message)
        self.assertEqual(sandbox.info().get("checkpoints", []), [])
        status, _ = self.warden.raw("POST", f"{sandbox.base}/jobs/{identity}/input", b"still\n")
        self.assertEqual(status, 204)
        sandbox.ask("DELETE", f"/jobs/{identity}/input")
        self.assertEqual(sandbox.collect(job).output, b"still\n")
        self.assertEqual(sandbox.checkpoint("c"), "c")

    def test_a_deleted_tree_comes_back(self):
        sandbox = self.sandbox()
        sandbox.run("mkdir -p /srv/t/a/b && for i in $(seq 200); do echo $i > /srv/t/a/b/$i; done", user="root")
        sum_line = "cd /srv && find . -type f | sort | xargs cat | cksum; ls -lR /srv | wc -l"
        before = sandbox.run(sum_line, user="root").output
        sandbox.checkpoint("c")
        sandbox.run("rm -rf /srv/t && echo other > /srv/t", user="root")
        sandbox.rollback("c")
        self.assertEqual(sandbox.run(sum_line, user="root").output, before)

    def test_links_at_the_root_are_not_followed_by_a_checkpoint(self):
        host_file = self.write_file("precious", "precious")
        sandbox = self.sandbox()
        sandbox.run(f"for n in srv opt mnt home; do rm -rf /$n; ln -s {self.directory} /$n; done", user="root")
        sandbox.checkpoint("c")
        sandbox.run("rm -f /srv; mkdir /srv; echo x > /srv/x", user="root")
        sandbox.rollback("c")
        self.assertEqual(sandbox.run("readlink /srv").text.strip(), self.directory)
        with open(host_file, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")

    def test_a_template_in_use_stays(self):
        sandbox = self.sandbox()
        sandbox.write("/srv/x", b"x", user="root")
        sandbox.ask("POST", "/snapshot", {"template": "kept"})
        user = self.warden.create(template="kept")
        self.assert_refused("conflict", self.warden.ask, "DELETE", "/templates/kept")
        self.assertEqual(user.read("/srv/x", user="root"), b"x")
        user.destroy()

        def removed():
            try:
                return self.warden.ask("DELETE", "/templates/kept") is not None
            except Refused as refused:
                if refused.type != "conflict":
                    raise
                return False

        wait_for(removed, "the template can be removed when nobody uses it")
