"""E2B's protocol when things break: clients that stop, roles that die, links that race, disks that fill."""

import base64
import contextlib
import http.client
import itertools
import json
import os
import signal
import sqlite3
import threading
import time

from e2b_client import Door, Refused
from pons_fixture import LONG, PonsTestCase, raise_descriptor_limit, read_text, wait_for
from warden_client import end_orderly


def memory_kib(pid):
    for line in read_text(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


class E2bFaults(PonsTestCase):
    def setUp(self):
        super().setUp()
        raise_descriptor_limit(self)
        self.pons = self.start("domain: sbx.test\nlimits:\n  connections: 4096\n")
        self.addCleanup(end_orderly, self.pons)
        self.door = Door(self.pons, self.make_key("mine"))
        self.box = self.door.create()

    def make_key(self, name, *more):
        done = self.pons.command("key", "create", name, "--json", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["key"]

    def role_pid(self, name):
        return self.pons.role_pids()[name]

    # ---- clients

    def test_a_client_that_stops_reading_costs_no_memory(self):
        streams = [self.box.start("yes", pty={"size": {"cols": 80, "rows": 24}}) for _ in range(4)]
        for stream in streams:
            self.addCleanup(stream.close)
            self.assertGreater(stream.pid(), 0)
        roles = [self.role_pid("front"), self.role_pid("warden")]
        time.sleep(2)
        before = [memory_kib(pid) for pid in roles]
        time.sleep(14)  # a process waits ten seconds for its readers, and then writes on without them
        after = [memory_kib(pid) for pid in roles]
        for first, last in zip(before, after):
            self.assertLess(last - first, 16 * 1024, (before, after))
        self.assertEqual(self.box.run("echo works"), ("works\n", 0))

    def watch(self, path):
        stream = self.box.open("filesystem.Filesystem/WatchDir", {"path": path})
        self.addCleanup(stream.close)
        return stream

    def test_a_thousand_watch_one_place_and_others_go_on(self):
        self.box.run("mkdir -p /tmp/watched")
        streams = [self.watch("/tmp/watched") for _ in range(1000)]
        for stream in streams:
            self.assertEqual(stream.take(), {"start": {}})
        other = self.door.create()
        self.assertEqual(other.run("echo others go on"), ("others go on\n", 0))
        self.assertEqual(self.box.write("/tmp/watched/file", b"x")[0], 200)
        for stream in streams:
            told = next(each for each in stream if "keepalive" not in each)
            self.assertEqual(told["filesystem"]["name"], "file")
        for stream in streams:
            stream.close()
        self.assertEqual(self.box.run("echo still here"), ("still here\n", 0))

    def test_more_places_than_can_be_watched_are_refused_and_others_go_on(self):
        self.box.run("mkdir -p $(seq -f /tmp/places/%g 120)")
        streams, refused = [], 0
        for number in range(1, 121):
            stream = self.watch(f"/tmp/places/{number}")
            if (first := stream.next()) is not None and "start" in first:
                streams.append(stream)
            else:
                refused += 1
                self.assertEqual(stream.end["error"]["code"], "resource_exhausted")
        self.assertGreater(len(streams), 0)
        self.assertGreater(refused, 0)
        self.assertEqual(self.box.write("/tmp/places/1/file", b"x")[0], 200)
        told = next(each for each in streams[0] if "keepalive" not in each)
        self.assertEqual(told["filesystem"]["name"], "file")
        for stream in streams:
            stream.close()
        self.assertEqual(self.box.run("echo still here"), ("still here\n", 0))

    def test_a_process_goes_on_when_its_client_leaves(self):
        stream = self.box.start("for i in $(seq 40); do echo $i > /tmp/count; sleep 0.1; done")
        stream.pid()
        stream.close()
        wait_for(lambda: self.box.read("/tmp/count")[1] == b"40\n", "it went on")

    def test_a_kill_cuts_streams_in_the_middle(self):
        stream = self.box.start("while :; do echo x; sleep 0.01; done")
        stream.pid()
        self.box.kill()
        for _ in stream:
            pass
        self.assertIsNone(stream.end, "a stream that was cut must not look finished")
        self.assertEqual(self.box.read("/etc/passwd")[0], 502)

    def test_clients_that_never_finish_their_request_keep_nobody_out(self):
        for _ in range(200):
            connection = self.door.connection()
            self.addCleanup(connection.close)
            connection.connect()
            connection.sock.sendall(b"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\n")
        self.assertEqual(self.box.run("echo works"), ("works\n", 0))

    def test_many_sandboxes_with_a_silent_stream_each_all_answer(self):
        boxes = [self.door.create() for _ in range(500 if LONG else 60)]
        streams = [box.start("sleep 300") for box in boxes]
        for stream in streams:
            self.addCleanup(stream.close)
            self.assertGreater(stream.pid(), 0)
        for box in boxes:
            self.assertEqual(box.run("echo here"), ("here\n", 0))
        for box in boxes:
            box.kill()

    # ---- roles

    def test_a_watch_goes_on_when_the_warden_is_killed(self):
        self.box.run("mkdir -p /tmp/watched")
        stream = self.watch("/tmp/watched")
        self.assertEqual(stream.take(), {"start": {}})
        os.kill(self.role_pid("warden"), signal.SIGKILL)
        self.pons.wait_until_ready()
        heard = []
        listening = threading.Thread(target=lambda: heard.extend(itertools.islice(stream, 1)))
        listening.start()
        self.addCleanup(listening.join)
        self.addCleanup(self.box.kill)

        def is_heard():
            # Until the watch stands again, nobody is there to hear of it.
            self.box.write("/tmp/watched/file", b"x")
            return heard

        wait_for(is_heard, "a change is heard of", seconds=30, step=0.2)
        self.assertEqual(heard[0].get("filesystem", {}).get("name"), "file", heard)

    def test_an_upload_that_a_kill_cuts_is_no_success_and_can_be_said_again(self):
        whole = os.urandom(1 << 20)
        for role in ("warden", "front"):
            with self.subTest(role=role):
                path = f"/tmp/cut-of-{role}"

                def pieces():
                    yield whole[:1000]
                    # Written in place: once it is there, all have the upload in hand. Earlier, the next process would
                    # take all of it.
                    wait_for(lambda: self.box.read(path)[0] == 200, "it has begun", seconds=30)
                    os.kill(self.role_pid(role), signal.SIGKILL)
                    time.sleep(0.5)
                    for at in range(1000, len(whole), 10_000):
                        yield whole[at:at + 10_000]

                connection = self.door.connection()
                self.addCleanup(connection.close)
                status = None
                with contextlib.suppress(OSError, http.client.HTTPException):
                    connection.request("POST", f"/files?path={path}", body=pieces(), encode_chunked=True,
                                       headers={**self.box.fields, "Content-Type": "application/octet-stream",
                                                "Transfer-Encoding": "chunked"})
                    status = connection.getresponse().status
                self.assertNotEqual(status, 200)
                self.pons.wait_until_ready()
                wait_for(lambda: self.box.write(path, whole)[0] == 200, "it is taken again", seconds=30)
                self.assertEqual(self.box.read(path), (200, whole))

    def test_a_download_that_a_kill_cuts_does_not_look_whole(self):
        self.box.run("head -c 60000000 /dev/zero > /tmp/long")
        for role in ("warden", "front"):
            with self.subTest(role=role):
                connection = self.door.connection()
                self.addCleanup(connection.close)
                connection.request("GET", "/files?path=/tmp/long", headers=self.box.fields)
                response = connection.getresponse()
                self.assertEqual(response.status, 200)
                self.assertEqual(len(response.read(1000)), 1000)
                os.kill(self.role_pid(role), signal.SIGKILL)
                with self.assertRaises((OSError, http.client.HTTPException)):
                    response.read()
                self.pons.wait_until_ready()
                wait_for(lambda: self.box.read("/etc/hostname")[0] in (200, 404), "files are read again", seconds=30)

    def lines_of(self, stream, seen):
        for message in stream:
            event = message.get("event", {})
            seen.append(base64.b64decode(event.get("data", {}).get("stdout", "")).decode())
            if "end" in event:
                return True
        return False

    def test_jobs_outlive_a_front_and_a_warden_that_are_killed(self):
        for role in ("front", "warden"):
            with self.subTest(role=role):
                stream = self.box.start(f"for i in $(seq 60); do echo $i; echo $i > /tmp/{role}; sleep 0.1; done")
                pid = stream.pid()
                stream.next()
                os.kill(self.role_pid(role), signal.SIGKILL)
                first = []
                whole = self.lines_of(stream, first)
                stream.close()
                if role == "warden":  # front reads on by itself, from where it was
                    self.assertTrue(whole, "the stream itself comes to its end")
                    numbers = [int(each) for each in "".join(first).split()]
                    self.assertEqual(numbers, list(range(numbers[0], 61)))
                    self.assertLess(numbers[0], 10)
                self.pons.wait_until_ready()

                def connect():
                    try:
                        again = self.box.open("process.Process/Connect", {"process": {"pid": pid}})
                        return again if (again.next() or {}).get("event", {}).get("start", {}).get("pid") == pid else None
                    except (OSError, Refused, ValueError, TypeError):
                        return None

                again = wait_for(connect, "the job is found again", seconds=30)
                rest = []
                self.assertTrue(self.lines_of(again, rest), "the end is told")
                again.close()
                numbers = [int(each) for each in "".join(rest).split()]
                self.assertEqual(numbers, list(range(numbers[0], 61)) if numbers else [])
                self.assertEqual(self.box.read(f"/tmp/{role}")[1], b"60\n")

    # ---- files

    def test_links_that_race_lead_nowhere_outside(self):
        secret = os.path.join(self.directory, "host-secret")
        with open(secret, "w", encoding="utf-8") as file:
            file.write("only the host has this")
        stream = self.box.start(
            "mkdir -p /tmp/a /tmp/real; echo inside > /tmp/real/f; cd /tmp/a; "
            f"while :; do ln -sfn /tmp/real x; ln -sfn {self.directory} x; ln -sfn ../../../../../../../..{self.directory} x; "
            "rm -rf x; mkdir -p x; rm -rf x; done")
        stream.pid()
        self.addCleanup(stream.close)
        stop = time.monotonic() + 5
        while time.monotonic() < stop:
            for name in ("host-secret", "f", "../host-secret"):
                status, body = self.box.read(f"/tmp/a/x/{name}")
                self.assertNotIn(b"only the host", body)
            self.box.write("/tmp/a/x/host-secret", b"from inside")
        self.assertEqual(read_text(secret), "only the host has this")
        self.assertEqual(sorted(each for each in os.listdir(self.directory) if each == "f"), [])

    def test_paths_that_climb_stay_inside(self):
        for path in ("../../../../../../../../etc/shadow", "/../../../etc/hostname", "/proc/1/root/etc/machine-id",
                     "/proc/self/root/../../../etc/hostname", "%2e%2e/%2e%2e/%2e%2e/etc/shadow", "/dev/mem", "a%00b"):
            status, body = self.box.read(path)
            self.assertNotIn(b"root:", body, path)
            self.assertIn(status, (200, 400, 401, 403, 404, 500), path)
            if os.path.exists("/etc/machine-id"):
                self.assertNotIn(read_text("/etc/machine-id").strip().encode() or b"-", body)

    def test_an_upload_beyond_the_disk_is_507_and_leaves_room(self):
        def pieces():
            piece = b"x" * (1 << 20)
            for _ in range(4000):
                yield piece

        connection = self.door.connection()
        self.addCleanup(connection.close)
        # The answer may come before the body is through.
        with contextlib.suppress(OSError):
            connection.request("POST", "/files?path=/home/user/huge", body=pieces(),
                               headers={**self.box.fields, "Content-Type": "application/octet-stream"})
        response = connection.getresponse()
        self.assertEqual(response.status, 507)
        self.assertEqual(json.loads(response.read())["code"], 507)
        self.box.run("rm -f /home/user/huge")
        self.assertEqual(self.box.write("/home/user/small", b"fits")[0], 200)

    # ---- projects

    def test_another_project_s_key_finds_nothing(self):
        self.pons.command("project", "create", "other")
        theirs = Door(self.pons, self.make_key("theirs", "--project", "other"))
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/connect"), ("POST", "/fork"),
                             ("POST", "/timeout"), ("PUT", "/network"), ("GET", "/metrics"), ("POST", "/snapshots")):
            with self.assertRaises(Refused) as refused:
                theirs.require(method, f"/sandboxes/{self.box.id}{path}", {"timeout": 5} if method != "GET" else None)
            self.assertEqual(refused.exception.status, 404, path)
        own = theirs.create()
        own.fields["E2b-Sandbox-Id"] = self.box.id  # their token, our sandbox
        self.assertEqual(own.read("/etc/passwd")[0], 401)

    # ---- ends

    def test_a_sandbox_that_ends_by_its_time_is_on_record_as_ended(self):
        timed = self.door.create(timeout=1)
        database = f"{self.pons.state_dir}/brain"

        def ended():
            names = [each for each in os.listdir(database) if each.endswith(".db")]
            for name in names:
                try:
                    with sqlite3.connect(f"file:{database}/{name}?mode=ro", uri=True) as store:
                        row = store.execute("SELECT ended, end_reason FROM sandboxes WHERE id = ?", (timed.id,)).fetchone()
                        if row and row[0]:
                            return row
                except sqlite3.Error:
                    pass
            return None

        self.assertEqual(wait_for(ended, "its end is on record", seconds=90, step=0.5)[1], "ended")
