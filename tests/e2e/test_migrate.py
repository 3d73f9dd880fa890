"""An installation moves from SQLite to PostgreSQL and back, with everything it has."""

import json
import os

from postgres_world import DATABASE
from session_world import SessionTestCase, calls, config, execute, play, provision, text
from test_postgres import PASSWORD, Postgres

MODEL = config([*play("first", calls(provision()), calls(execute("echo hi; head -c 200000 /dev/zero | tr '\\0' x")),
                      text("Done.")),
                *play("second", text("Again."), said_before=3)])


class Migrating(SessionTestCase):
    def setUp(self):
        super().setUp()
        self.postgres = Postgres(self, PASSWORD)
        self.password_file = self.write_file("password", PASSWORD + "\n")
        os.chmod(self.password_file, 0o600)

    def migrate(self, *words, password=None):
        return self.run_pons("migrate", *words, "--password-file", password or self.password_file,
                             "--authority-file", self.postgres.authority_file, "--json",
                             "--state-dir", f"{self.directory}/state")

    def with_postgres(self):
        store = {"postgres": self.postgres.url(), "authority_file": self.postgres.authority_file,
                 "password_file": self.password_file}
        return json.dumps({**json.loads(MODEL), "store": store})

    def test_sessions_and_keys_go_there_and_back(self):
        self.use(self.start(MODEL))
        session = self.client.create("first")
        before = self.finish(session)
        key = self.client.key
        refused = self.migrate("--to", self.postgres.url())
        self.assertEqual(refused.returncode, 1, "a Pons that runs keeps its store")
        self.assertIn("running", refused.stderr)
        self.pons.stop()

        moved = self.migrate("--to", self.postgres.url())
        self.assertEqual(moved.returncode, 0, moved.stderr)
        rows = {table["table"]: table["rows"] for table in json.loads(moved.stdout)["tables"]}
        self.assertEqual(rows["session_events"], len(before))
        self.assertEqual(rows["api_keys"], 1)
        self.assertNotIn(PASSWORD, moved.stdout + moved.stderr)
        self.assertEqual(int(self.postgres.psql(DATABASE, "SELECT count(*) FROM session_events")), len(before))
        again = self.migrate("--to", self.postgres.url())
        self.assertEqual(again.returncode, 1)
        self.assertIn("the target is not empty", again.stderr)

        self.use_key(self.start(self.with_postgres()), key)
        self.assertEqual(self.client.events(session), before)
        self.client.say(session, "second")
        self.client.wait(session)
        after = self.client.events(session)
        self.assertEqual(after[:len(before)], before)
        self.assertIn("pg_dump", self.pons.command("backup", f"{self.directory}/copy.db").stderr)
        self.pons.stop()
        restored = self.run_pons("restore", f"{self.directory}/copy.db", "--state-dir", self.pons.state_dir,
                                 "--config", self.pons.config_file)
        self.assertIn("pg_restore", restored.stderr)

        os.rename(f"{self.pons.state_dir}/brain/pons.db", f"{self.directory}/before.db")
        back = self.migrate("--from", self.postgres.url())
        self.assertEqual(back.returncode, 0, back.stderr)
        self.use_key(self.start(MODEL), key)
        self.assertEqual(self.client.events(session), after)

    def use_key(self, pons, key):
        self.pons = pons
        self.client = type(self.client)(pons, key)

    def test_what_cannot_be_reached_or_is_not_let_in_is_said(self):
        pons = self.start(MODEL)
        pons.stop()
        wrong = self.write_file("wrong", "wrong\n")
        self.assertIn("password authentication failed", self.migrate("--to", self.postgres.url(), password=wrong).stderr)
        inside = self.migrate("--to", f"postgres://pons:{PASSWORD}@localhost/work")
        self.assertIn("password", inside.stderr)
        self.assertNotIn(PASSWORD, inside.stderr)
        self.assertIn("--to or --from", self.migrate().stderr)
        self.postgres.stop()
        self.assertIn("Connection refused", self.migrate("--to", self.postgres.url()).stderr)

    def test_no_pons_starts_on_half_a_copy(self):
        pons = self.start(self.with_postgres())
        pons.stop()
        self.postgres.psql(DATABASE, "INSERT INTO nodes VALUES ('unfinished copy', 1, 0)")
        pons = self.launch(self.with_postgres())
        self.assertNotEqual(pons.wait_until_ended(120), 0)
        self.assertIn("has not finished copying", pons.output + pons.log)
