"""What E2B's SDKs of other languages, and older ones, ask of a real sandbox, and the one for Node.js does not."""

import base64
import json
import os
import signal
import time

from e2b_client import Door
from pons_fixture import PonsTestCase, wait_for
from warden_client import end_orderly


class E2bCorners(PonsTestCase):
    def setUp(self):
        super().setUp()
        self.pons = self.start("domain: sbx.test\n")
        self.addCleanup(end_orderly, self.pons)
        done = self.pons.command("key", "create", "mine", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.door = Door(self.pons, json.loads(done.stdout)["key"])

    # ---- files

    def test_changes_are_kept_for_those_who_ask_later(self):
        box = self.door.create()
        box.run("mkdir -p /tmp/watched/deep")
        status, made = box.call("filesystem.Filesystem/CreateWatcher", {"path": "/tmp/watched", "recursive": True})
        self.assertEqual(status, 200, made)
        watcher = {"watcherId": made["watcherId"]}
        box.run("echo x > /tmp/watched/deep/file; mkdir /tmp/watched/new; rm /tmp/watched/deep/file")
        events = []

        def all_are_told():
            events.extend(box.call("filesystem.Filesystem/GetWatcherEvents", watcher)[1].get("events", []))
            return any(event["type"] == "EVENT_TYPE_REMOVE" for event in events)

        wait_for(all_are_told, "the changes are told")
        told = {(event["name"], event["type"]) for event in events}
        self.assertLessEqual({("deep/file", "EVENT_TYPE_CREATE"), ("deep/file", "EVENT_TYPE_WRITE"),
                              ("new", "EVENT_TYPE_CREATE"), ("deep/file", "EVENT_TYPE_REMOVE")}, told)
        self.assertEqual(box.call("filesystem.Filesystem/RemoveWatcher", watcher)[0], 200)
        status, refused = box.call("filesystem.Filesystem/GetWatcherEvents", watcher)
        self.assertEqual((status, refused["code"]), (404, "not_found"))

    def test_a_part_of_a_file_is_read_by_its_range(self):
        box = self.door.create()
        data = os.urandom(300_000)
        self.assertEqual(box.write("/tmp/large", data)[0], 200)

        def read(**fields):
            return self.door.ask("GET", "/files?path=/tmp/large",
                                 headers={**box.fields, **{name.replace("_", "-"): value for name, value in fields.items()}})

        status, fields, body = read(Range="bytes=100000-200000")
        self.assertEqual((status, body), (206, data[100_000:200_001]))
        self.assertEqual(fields["Content-Range"], "bytes 100000-200000/300000")
        self.assertEqual(read(Range="bytes=-5")[2], data[-5:])
        self.assertEqual(read(Range="bytes=300000-")[0], 416)
        tags = {name.lower(): value for name, value in read()[1].items()}
        if "last-modified" in tags:
            self.assertEqual(read(If_Modified_Since=tags["last-modified"])[0], 304)

    # ---- processes

    def test_a_process_is_found_by_its_tag_also_after_the_warden_was_killed(self):
        box = self.door.create()
        stream = box.start("read line; echo got $line; read line; echo again $line", tag="the one", stdin=True)
        self.assertGreater(stream.pid(), 0)

        def give(text):
            return box.call("process.Process/SendInput", {
                "process": {"tag": "the one"}, "input": {"stdin": base64.b64encode(text).decode()}})[0]

        self.assertEqual(give(b"this\n"), 200)
        os.kill(self.pons.role_pids()["warden"], signal.SIGKILL)
        wait_for(lambda: self.listed(box) == ["the one"], "the process is listed again")
        second = box.open("process.Process/Connect", {"process": {"tag": "the one"}})
        self.assertEqual(give(b"that\n"), 200)
        self.assertIn(b"again that\n", second.output())
        second.close()
        stream.close()
        wait_for(lambda: self.listed(box) == [], "it has ended")

    def listed(self, box):
        status, answer = box.call("process.Process/List", {})
        return [each.get("tag") for each in answer.get("processes", [])] if status == 200 else None

    def test_who_waits_for_a_silent_process_hears_that_it_is_there(self):
        box = self.door.create()
        stream = box.open("process.Process/Start", {"process": {"cmd": "/bin/sleep", "args": ["4"]}, "stdin": False},
                          fields={"Keepalive-Ping-Interval": "1"})
        kinds = [next(iter(message["event"])) for message in stream]
        self.assertEqual((kinds[0], kinds[-1]), ("start", "end"))
        self.assertGreaterEqual(kinds.count("keepalive"), 2, kinds)
        stream.close()

    # ---- lives

    def test_old_clients_resume_by_the_old_path_and_get_the_old_time(self):
        box = self.door.create()
        self.assertEqual(self.door.ask("POST", f"/sandboxes/{box.id}/pause", {})[0], 204)
        status, _, answer = self.door.ask("POST", f"/sandboxes/{box.id}/resume", {})
        self.assertEqual(status, 201, answer)
        self.assertEqual(json.loads(answer)["sandboxID"], box.id)
        info = self.door.require("GET", f"/sandboxes/{box.id}")
        self.assertEqual(info["state"], "running")
        self.assertEqual(self.door.ask("POST", f"/sandboxes/{box.id}/resume", {})[0], 409)
        self.assertEqual(self.door.require("GET", f"/sandboxes/{box.id}/logs")["logs"], [])

    def test_traffic_to_a_port_wakes_the_sandbox(self):
        box = self.door.create(autoPause=True, autoResume={"enabled": True})
        server = box.start("exec python3 -m http.server 8000 --directory /usr/lib")
        self.addCleanup(server.close)
        server.pid()
        fields = {"E2b-Sandbox-Id": box.id, "E2b-Sandbox-Port": "8000"}
        wait_for(lambda: self.door.ask("GET", "/os-release", headers=fields)[0] == 200, "the port answers")
        self.assertEqual(self.door.ask("POST", f"/sandboxes/{box.id}/pause", {})[0], 204)
        status, _, body = self.door.ask("GET", "/os-release", headers=fields)
        self.assertEqual(status, 200, body)
        info = self.door.require("GET", f"/sandboxes/{box.id}")
        self.assertEqual(info["state"], "running")
        self.assertLess(info["endAt"], time.strftime("%Y-%m-%dT", time.gmtime(time.time() + 86_400 * 2)), "it has an end")

    def test_figures_of_a_sandbox_are_its_own(self):
        box = self.door.create()
        box.run("head -c 60000000 /dev/zero > /tmp/fill")

        def used():
            figures = self.door.require("GET", f"/sandboxes/{box.id}/metrics")
            return figures and figures[-1]["diskUsed"] >= 50_000_000

        wait_for(used, "the disk's use is told")
