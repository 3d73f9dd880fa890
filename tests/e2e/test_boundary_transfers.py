"""Large transfers through a host that gets secrets, and an egress that dies in the middle of them."""

import contextlib
import hashlib
import os
import random
import signal
import subprocess
import threading
import time

from boundary.cases import A, AUTH, BoundaryTest, get
from boundary.world import Attacker, enter
from pons_fixture import LONG, read_link, wait_for
from sandbox_world import rss_bytes, settled

MIB = 1 << 20
REPOSITORY_BYTES = 200 * MIB if LONG else 5 * MIB
KILLS = TRANSFERS = 1000 if LONG else 30


def setUpModule():
    enter()


class Transfers(BoundaryTest):
    config = "supervisor:\n  restart_delay_ms: 1\n  restart_delay_max_ms: 20\n"

    def egress(self):
        return self.world.pons.role_pids()["egress"]

    def git(self, *words, cwd):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@example.com", *words], cwd=cwd, check=True,
                       capture_output=True, env={"PATH": os.environ["PATH"], "HOME": cwd, "GIT_CONFIG_NOSYSTEM": "1"})

    def make_repository(self):
        root = f"{self.world.directory}/git/private"
        os.makedirs(f"{root}/source")
        data = hashlib.shake_256(b"repository").digest(REPOSITORY_BYTES)
        for i in range(4):
            with open(f"{root}/source/{i}.bin", "wb") as file:
                file.write(data[i * len(data) // 4 : (i + 1) * len(data) // 4])
        self.git("init", "-q", "-b", "main", cwd=f"{root}/source")
        self.git("add", ".", cwd=f"{root}/source")
        self.git("commit", "-q", "-m", "x", cwd=f"{root}/source")
        self.git("clone", "-q", "--bare", "source", "repo.git", cwd=root)
        self.git("config", "http.receivepack", "true", cwd=f"{root}/repo.git")
        return root

    def ask_repository(self, root, *words):
        """Of the host's own copy."""
        environment = {"PATH": os.environ["PATH"], "HOME": root, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "1",
                       "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        return subprocess.run(["git", "--git-dir", f"{root}/repo.git", *words], capture_output=True, text=True, check=True,
                              env=environment).stdout.strip()

    @contextlib.contextmanager
    def memory_watched(self, most):
        """Whatever happens meanwhile, egress does not grow by more."""
        before = rss_bytes(self.egress())
        peak = [before]
        over = threading.Event()

        def watch():
            while not over.wait(0.02):
                peak[0] = max(peak[0], rss_bytes(self.egress()))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
        print(f"\negress grew by {(peak[0] - before) / MIB:.1f} MiB at most")
        self.assertLess(peak[0] - before, most)

    def test_git_clones_and_pushes_with_the_stub(self):
        root = self.make_repository()
        # It holds both versions twice: packed, and as files.
        sandbox = self.world.sandbox("developer", limits={"disk_upper": True, "disk_bytes": 6 * REPOSITORY_BYTES + 256 * MIB})
        self.addCleanup(sandbox.destroy)
        begun = time.monotonic()
        with self.memory_watched(30 * MIB):
            job = sandbox.run(
                "set -e; cd ~; git clone -q https://agent:$GITHUB_TOKEN@github.com/private/repo.git; cd repo; "
                "git rev-parse HEAD^{tree}; cat 0.bin 1.bin 2.bin 3.bin | sha256sum; "
                f"head -c {REPOSITORY_BYTES} /dev/urandom > new.bin; git add new.bin; "
                "git -c user.name=x -c user.email=x@example.com commit -q -m new; git push -q origin main; "
                "git rev-parse HEAD^{tree}; sha256sum < new.bin; git fsck --no-progress",
                seconds=900)
        seconds = time.monotonic() - begun
        self.assertEqual(job.code, 0, job)
        cloned_tree, cloned, pushed_tree, pushed = [line.split()[0] for line in job.text.splitlines()[:4]]
        self.assertEqual(cloned, hashlib.sha256(hashlib.shake_256(b"repository").digest(REPOSITORY_BYTES)).hexdigest())
        self.assertEqual(cloned_tree, self.ask_repository(root, "rev-parse", "main~^{tree}"))
        self.assertEqual(pushed_tree, self.ask_repository(root, "rev-parse", "main^{tree}"))
        self.ask_repository(root, "fsck", "--no-progress", "--strict")
        arrived = subprocess.run(f"git --git-dir {root}/repo.git -c safe.directory='*' show main:new.bin | sha256sum", shell=True,
                                 capture_output=True, text=True, check=True)
        self.assertEqual(arrived.stdout.split()[0], pushed)
        print(f"git: {REPOSITORY_BYTES / MIB:.0f} MiB cloned and as much pushed in {seconds:.0f} s, each byte for byte the same "
              f"(sha256 {cloned[:12]}… and {pushed[:12]}…)")
        self.assertIsNone(self.world.find_leak(job.output + job.error))
        config = sandbox.run("cat ~/repo/.git/config").text
        self.assertIn(Attacker(sandbox).environment["GITHUB_TOKEN"], config)
        events, _ = self.settle()
        self.assertIn("swap", {event["verdict"] for event in events})

    def test_a_stub_far_behind_in_a_large_body_ends_the_transfer(self):
        """S11: there is no window behind which nobody looks."""
        stub = self.stubs["GITHUB_TOKEN"]
        for padding in (70_000, 3 * MIB):
            with self.subTest(padding=padding):
                job = self.sandbox.run(
                    f"(head -c {padding} /dev/zero | tr '\\0' x; printf %s {stub}; head -c 100000 /dev/zero) | "
                    f'curl -sS -o /dev/null -w "%{{http_code}}" -X POST -T - -H "Authorization: Bearer $GITHUB_TOKEN" https://{A}/sink')
                self.assertNotEqual(job.text, "200", job)
        with open(self.world.internet.received_by(A)[0], "rb") as file:
            self.assertNotIn(stub.encode(), file.read())
        events, _ = self.settle()
        self.assertEqual({event["code"] for event in events}, {"undeclared_position"}, events)

    # ---- death

    def descriptors(self):
        """What egress holds, by kind, once it is quiet."""
        return len(os.listdir(f"/proc/{self.egress()}/fd"))

    def kill_egress(self):
        before = self.world.pons.role("egress")
        os.kill(before["pid"], signal.SIGKILL)
        return before["pid"]

    def wait_until_back(self, old):
        def back():
            role = self.world.pons.role("egress")
            return role["pid"] not in (0, old) and role.get("ready", role.get("state") == "ready")

        wait_for(back, "egress is back", seconds=60)

    def all_held(self):
        """By those who outlive egress. The spawner makes and uses grounds in quiet moments."""
        counts = wait_for(lambda: settled(self.world.pons), "nothing moves any more", step=0.1)
        return {name: count for name, count in counts.items() if name in ("supervisor descriptors", "spawner descriptors", "kept")}

    def test_killed_in_the_middle_it_comes_back_with_its_sandboxes_and_nothing_is_silently_short(self):
        size = MIB // 2
        piece = hashlib.shake_128(b"0").digest(65536)
        wanted = hashlib.sha256(piece * (size // len(piece))).hexdigest()
        self.sandbox.write("/tmp/fetch.sh", (
            "i=0; while :; do i=$((i + 1))\n"
            "  curl -fsS --max-time 20 -o /tmp/got -H \"Authorization: Bearer $GITHUB_TOKEN\" "
            f"'https://{A}/bytes/'$i'?size={size}&pause=0.005' 2>/dev/null\n"
            "  code=$?; echo $code $(sha256sum < /tmp/got | cut -c1-64)\n"
            "done\n").encode())
        self.settle()
        held_before, outside, kept = self.descriptors(), self.all_held(), self.world.pons.role("egress")["kept_descriptors"]
        lines = self.sandbox.start("sh /tmp/fetch.sh", seconds=1800)
        job = next(lines)["job"]
        outcomes = []

        def read():
            text = ""
            for line in lines:
                *whole, text = (text + line.get("output", {}).get("bytes", "")).split("\n")
                outcomes.extend(each.split() for each in whole)

        reader = threading.Thread(target=read)
        reader.start()
        kills, begun = 0, time.monotonic()
        while kills < KILLS or len(outcomes) < TRANSFERS:
            threading.Event().wait(random.uniform(0, 0.2))
            self.wait_until_back(self.kill_egress())
            kills += 1
            self.assertTrue(reader.is_alive(), "the transfers have ended by themselves")
        self.sandbox.signal(job, signal.SIGKILL)
        reader.join(60)
        good = [got for got in outcomes if got[0] == "0"]
        self.assertEqual([got for got in good if got[1] != wanted], [], "an answer was short and nobody said so")
        self.assertGreater(len(good), 0, "no transfer came to its end between two deaths")
        self.assertLess(len(good), len(outcomes), "no death fell into a transfer")
        self.settle_again()
        print(f"\n{kills} deaths of egress in {time.monotonic() - begun:.0f} s: {len(outcomes)} transfers, {len(good)} whole and byte for byte "
              "the same, the others failed with an error")
        self.assertEqual(self.world.pons.role("egress")["kept_descriptors"], kept)
        held_after = wait_for(lambda: self.descriptors() if self.descriptors() <= held_before else None, "egress holds no more than before")
        wait_for(lambda: all(count <= outside[name] for name, count in self.all_held().items()), "nor does anyone else")
        print(f"descriptors before and after: egress {held_before} and {held_after}, kept for it {kept} and "
              f"{self.world.pons.role('egress')['kept_descriptors']}, others {outside} and {self.all_held()}")
        self.check_nothing_left_without_a_trace()

    def check_nothing_left_without_a_trace(self):
        """Whatever reached a host is in the audit log, whoever died meanwhile."""
        verified = self.world.pons.command("audit", "verify")
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        path = self.knock()
        wait_for(lambda: self.world.last_events(self.seen)[-1].get("path") == path, "the last decision is on record")
        new = self.world.last_events(self.seen)
        type(self).seen = new[-1]["seq"]
        recorded = {event.get("path") for event in new}
        asked = {request["target"].partition("?")[0] for request in self.world.internet.new_requests()}
        lost = sorted(asked - recorded)
        print(f"{len(asked)} requests arrived, {len(lost)} of them are not in the audit log")
        self.assertEqual(lost, [])

    def settle_again(self):
        """A good request, as soon as one gets through."""
        wait_for(self.knock_or_none, "the sandbox is served", step=0.1)

    def knock_or_none(self):
        try:
            return self.knock()
        except AssertionError:
            return None

    def test_while_it_is_dead_the_way_out_is_shut_and_nobody_takes_its_place(self):
        self.sandbox.write("/tmp/take.py", (
            "import socket, time\n"
            "end = time.monotonic() + 3\n"
            "while time.monotonic() < end:\n"
            "    for kind, port in ((socket.SOCK_STREAM, 3128), (socket.SOCK_DGRAM, 53)):\n"
            "        with socket.socket(socket.AF_INET, kind) as s:\n"
            "            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
            "            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
            "            try:\n"
            "                s.bind(('0.0.0.0', port))\n"
            "                if kind == socket.SOCK_STREAM: s.listen()\n"
            "                print('taken', port)\n"
            "            except OSError: pass\n"
            "print('end')\n").encode())
        lines = self.sandbox.start("python3 /tmp/take.py", seconds=60)
        next(lines)
        for _ in range(5):
            self.wait_until_back(self.kill_egress())
        text = "".join(line.get("output", {}).get("bytes", "") for line in lines)
        self.assertEqual(text, "end\n")
        self.settle_again()


del BoundaryTest  # or it would run by itself
