"""What must outlive processes: keys, records of sandboxes, and the way back from a backup."""

import glob
import json
import os
import shutil
import signal
import sqlite3
import threading

from pons_fixture import PonsTestCase, UnixConnection, read_text, wait_for


class StoreTestCase(PonsTestCase):
    def brain(self, pons, method, target, body=None):
        connection = UnixConnection(f"{pons.state_dir}/run/brain.sock")
        try:
            connection.request(method, target, body=None if body is None else json.dumps(body))
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def command(self, pons, *arguments):
        """What a command that must work prints as JSON."""
        done = pons.command(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def key_ids(self, pons):
        return {key["id"] for key in self.brain(pons, "GET", "/keys")[1]["keys"]}

    def store_file(self, pons):
        return f"{pons.state_dir}/brain/pons.db"

    def refused(self, pons, *arguments):
        done = pons.command(*arguments)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr


class Keys(StoreTestCase):
    def test_keys_projects_and_revocations_survive_a_restart(self):
        pons = self.start()
        project = self.command(pons, "project", "create", "web")
        kept = self.command(pons, "key", "create", "ci", "--project", "web", "--scope", "sandboxes")
        gone = self.command(pons, "key", "create", "old")
        self.assertRegex(kept["key"], "^pons_[0-9a-f]{40}$")
        self.assertEqual((kept["project"], kept["scopes"]), (project["id"], ["sandboxes"]))
        self.assertEqual(gone["scopes"], ["sandboxes", "agents", "sessions", "models", "mcp"])
        self.command(pons, "key", "revoke", gone["id"])
        self.assertEqual(pons.stop(), 0)

        pons = self.start()
        self.assertEqual(self.key_ids(pons), {kept["id"]})
        names = {project["name"] for project in self.command(pons, "project", "ls")["projects"]}
        self.assertEqual(names, {"default", "web"})
        keys = {key["id"]: key for key in self.command(pons, "key", "ls")["keys"]}
        self.assertIsNone(keys[kept["id"]]["revoked_unix_ms"])
        self.assertIsNotNone(keys[gone["id"]]["revoked_unix_ms"])

    def test_a_key_stands_nowhere_but_on_the_operators_screen(self):
        pons = self.start()
        shown = pons.command("key", "create", "laptop")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        digits = shown.stdout.strip().removeprefix("pons_")
        self.assertEqual(len(digits), 40)
        self.assertNotIn(digits, shown.stderr)
        self.assertNotIn(digits, pons.command("key", "ls").stdout)
        self.assertEqual(pons.stop(), 0)
        for path in glob.glob(f"{pons.state_dir}/**", recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    self.assertNotIn(digits.encode(), file.read(), path)
        self.assertNotIn(digits, pons.log)

    def test_whoever_waits_for_news_learns_of_a_revocation(self):
        pons = self.start()
        key = self.command(pons, "key", "create", "ci")
        seen = self.brain(pons, "GET", "/keys")[1]["generation"]
        news = []
        waiting = threading.Thread(
            target=lambda: news.append(self.brain(pons, "GET", f"/keys?after={seen}")[1])
        )
        waiting.start()
        self.command(pons, "key", "revoke", key["id"])
        waiting.join(timeout=60)
        self.assertEqual([answer["keys"] for answer in news], [[]])

    def test_wrong_words_are_answered_with_advice(self):
        pons = self.start()
        self.assertIn("one of: sandboxes", self.refused(pons, "key", "create", "x", "--scope", "everything"))
        self.assertIn('no project "nobody"', self.refused(pons, "key", "create", "x", "--project", "nobody"))
        self.assertIn('no key "key_none"', self.refused(pons, "key", "revoke", "key_none"))
        self.assertIn("already", self.refused(pons, "project", "create", "default"))
        self.assertIn("letters", self.refused(pons, "project", "create", "a/b"))

    def test_an_orderly_end_does_not_wait_for_whoever_waits_for_news(self):
        pons = self.start("supervisor:\n  drain_seconds: 30\n")
        seen = self.brain(pons, "GET", "/keys")[1]["generation"]
        connection = UnixConnection(f"{pons.state_dir}/run/brain.sock")
        self.addCleanup(connection.close)
        connection.request("GET", f"/keys?after={seen}")
        connection.sock.close()
        self.assertEqual(pons.stop(), 0)


class Backup(StoreTestCase):
    def test_a_backup_brings_back_what_was_there(self):
        pons = self.start()
        key = self.command(pons, "key", "create", "before")
        file = f"{self.directory}/backup.db"
        made = self.command(pons, "backup", file)
        self.assertEqual(made["bytes"], os.path.getsize(file))
        self.assertEqual(os.stat(file).st_mode & 0o777, 0o600)
        self.assertEqual(os.listdir(f"{pons.state_dir}/brain").count("backup.db"), 0)
        later = self.command(pons, "key", "create", "after")
        self.assertIn("already running", self.refused(pons, "restore", file))
        self.assertEqual(self.key_ids(pons), {key["id"], later["id"]})
        self.assertEqual(pons.stop(), 0)

        restored = self.command(pons, "restore", file)
        with sqlite3.connect(f"file:{restored['kept']}?mode=ro", uri=True) as former:
            self.assertEqual(former.execute("SELECT count(*) FROM api_keys").fetchone(), (2,))
        pons = self.start()
        self.assertEqual(self.key_ids(pons), {key["id"]})

    def test_a_backup_brings_back_keys_for_models_and_what_they_spent(self):
        def spend(key):
            body = {"model": "demo", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
            status, text = pons.request("/v1/messages", "POST", {"x-api-key": key["key"]}, json.dumps(body))
            self.assertEqual(status, 200, text)

        def requests(key):
            rows = self.command(pons, "usage", "--key", key["id"])["usage"]
            return sum(row["requests"] for row in rows)

        pons = self.start()
        before = self.command(pons, "keys", "create", "before")
        spend(before)
        file = f"{self.directory}/backup.db"
        made = self.command(pons, "backup", file)
        self.assertEqual((made["models_file"], made["models_bytes"]),
                         (file + ".models", os.path.getsize(file + ".models")))
        self.assertEqual(os.stat(file + ".models").st_mode & 0o777, 0o600)
        after = self.command(pons, "keys", "create", "after")
        spend(before)
        self.assertEqual(requests(before), 2)
        self.assertEqual(pons.stop(), 0)

        restored = self.command(pons, "restore", file)
        self.assertEqual(restored["restored_models"], file + ".models")
        self.assertIn("/gateway/models.db.before-", restored["kept_models"])
        pons = self.start()
        self.assertEqual(requests(before), 1)
        body = json.dumps({"model": "demo", "max_tokens": 10, "messages": []})
        self.assertEqual(pons.request("/v1/messages", "POST", {"x-api-key": after["key"]}, body)[0], 401)
        spend(before)

    def test_a_backup_without_the_models_leaves_theirs_alone(self):
        pons = self.start()
        file = f"{self.directory}/backup.db"
        self.command(pons, "backup", file)
        kept = self.command(pons, "keys", "create", "kept")
        self.assertEqual(pons.stop(), 0)
        with open(file + ".models", "wb") as damaged:
            damaged.write(b"garbage")
        self.assertIn(file + ".models", self.refused(pons, "restore", file))
        os.unlink(file + ".models")
        self.assertIsNone(self.command(pons, "restore", file)["restored_models"])
        pons = self.start()
        self.assertIn(kept["id"], [key["id"] for key in self.command(pons, "keys", "ls")["keys"]])

    def test_a_backup_is_never_written_over_a_file(self):
        pons = self.start()
        file = self.write_file("precious", "precious")
        self.assertIn("exists already", self.refused(pons, "backup", file))
        self.assertEqual(read_text(file), "precious")
        self.assertIn("nowhere", self.refused(pons, "backup", f"{self.directory}/nowhere/backup.db"))

    def test_what_is_no_backup_is_refused_and_the_store_stays(self):
        pons = self.start()
        key = self.command(pons, "key", "create", "kept")
        file = f"{self.directory}/backup.db"
        self.command(pons, "backup", file)
        self.assertEqual(pons.stop(), 0)
        with open(file, "rb") as backup:
            whole = backup.read()
        for name, content in {"cut": whole[:-4096], "garbage": b"g" * 9000, "empty": b""}.items():
            path = f"{self.directory}/{name}"
            with open(path, "wb") as damaged:
                damaged.write(content)
            self.assertIn(path, self.refused(pons, "restore", path))
        self.assertIn("does not exist", self.refused(pons, "restore", f"{self.directory}/none"))
        newer = f"{self.directory}/newer"
        shutil.copyfile(file, newer)
        with sqlite3.connect(newer) as database:
            database.execute("INSERT INTO schema_migrations VALUES (999, 'future', '', 0)")
        self.assertIn("newer Pons", self.refused(pons, "restore", newer))
        pons = self.start()
        self.assertEqual(self.key_ids(pons), {key["id"]})

    def test_a_damaged_store_is_named_and_a_backup_helps(self):
        pons = self.start()
        key = self.command(pons, "key", "create", "kept")
        file = f"{self.directory}/backup.db"
        self.command(pons, "backup", file)
        self.assertEqual(pons.stop(), 0)
        with open(self.store_file(pons), "r+b") as store:
            store.write(b"garbage" * 1000)
        ill = self.launch()
        self.assertEqual(ill.wait_until_ended(), 1)
        self.assertIn(self.store_file(pons), ill.log)
        self.assertIn("pons restore", ill.log)
        self.command(pons, "restore", file)
        self.assertEqual(self.key_ids(self.start()), {key["id"]})


class Death(StoreTestCase):
    def ready_brain(self, pons, other_than=None):
        """The process id of a brain that is ready; nothing while there is none."""
        role = pons.role("brain")
        return role["pid"] if role["state"] == "ready" and role["pid"] not in (other_than, 0, -1) else None

    def test_a_killed_brain_loses_no_record_that_it_answered(self):
        pons = self.start()
        answered = []
        stop = threading.Event()

        def write(writer):
            number = 0
            while not stop.is_set():
                number += 1
                name = f"s{writer}-{number}"
                try:
                    status, _ = self.brain(
                        pons,
                        "POST",
                        "/sandbox-records",
                        [
                            {"op": "create", "id": name, "project": "default", "template": "base"},
                            {"op": "end", "id": name, "project": "default", "reason": "killed"},
                        ],
                    )
                except (OSError, ValueError):
                    continue  # killed while it worked on this one
                except Exception:  # http.client has its own words for a connection that breaks
                    continue
                if status == 200:
                    answered.append(name)

        writers = [threading.Thread(target=write, args=(i,)) for i in range(4)]
        for writer in writers:
            writer.start()
        for _ in range(5):
            before, killed = len(answered), self.ready_brain(pons)
            wait_for(lambda: len(answered) > before + 20, "records are written")
            os.kill(killed, signal.SIGKILL)
            wait_for(lambda: self.ready_brain(pons, other_than=killed), "it is back")
        stop.set()
        for writer in writers:
            writer.join()
        self.assertEqual(pons.stop(), 0)
        with sqlite3.connect(self.store_file(pons)) as store:
            self.assertEqual(store.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            rows = dict(store.execute("SELECT id, end_reason FROM sandboxes"))
        self.assertGreater(len(answered), 100)
        self.assertEqual([name for name in answered if name not in rows], [], "answered, and not there")
        self.assertEqual([name for name, reason in rows.items() if reason != "killed"], [], "half is there")

    def test_it_works_below_folders_that_its_user_may_not_enter(self):
        closed = f"{self.directory}/closed"
        os.mkdir(closed, mode=0o700)
        pons = self.start(state_dir=f"{closed}/state")
        key = self.command(pons, "key", "create", "ci")
        self.command(pons, "backup", f"{self.directory}/backup.db")
        self.assertEqual(self.key_ids(pons), {key["id"]})
