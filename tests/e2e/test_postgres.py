"""A brain whose store is a PostgreSQL elsewhere: everything is there, and the brain knows no password."""

import glob
import json
import os
import signal

from pons_fixture import PonsTestCase, is_in_memory, wait_for
from postgres_world import DATABASE, Postgres

PASSWORD = "correct-horse-battery-staple-7341"


class PostgresTestCase(PonsTestCase):
    def setUp(self):
        super().setUp()
        self.postgres = Postgres(self, PASSWORD)

    def config(self, url=None, authority=None, password="password_env: DATABASE_PASSWORD"):
        authority = authority or self.postgres.authority_file
        return f"store:\n  postgres: {url or self.postgres.url()}\n  authority_file: {authority}\n  {password}\n"

    def start_pons(self, config=None):
        return self.start(config or self.config(), environment={"DATABASE_PASSWORD": PASSWORD})

    def command(self, pons, *arguments):
        done = pons.command(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def failure(self, config, environment=None):
        """What `pons up` says before it gives up."""
        pons = self.launch(config, environment=environment or {"DATABASE_PASSWORD": PASSWORD})
        self.assertNotEqual(pons.wait_until_ended(120), 0)
        return pons.output + pons.log


class Storing(PostgresTestCase):
    def test_projects_and_keys_are_in_the_database_and_survive_restarts_of_both(self):
        pons = self.start_pons()
        self.command(pons, "project", "create", "web")
        key = self.command(pons, "key", "create", "ci", "--project", "web")
        self.assertEqual(self.postgres.psql(DATABASE, "SELECT name FROM projects ORDER BY name"), "default\nweb")
        self.assertEqual(glob.glob(f"{pons.state_dir}/brain/pons.db*"), [])

        self.postgres.stop(signal.SIGKILL)
        self.postgres.start()

        def listed():
            done = pons.command("key", "ls", "--json")
            return done.returncode == 0 and {one["id"] for one in json.loads(done.stdout)["keys"]}

        self.assertEqual(wait_for(listed, "the brain finds its database again"), {key["id"]})
        os.kill(pons.role_pids()["gateway"], signal.SIGKILL)
        wait_for(lambda: pons.command("project", "create", "after").returncode == 0, "a new gateway serves the brain")
        os.kill(pons.role_pids()["brain"], signal.SIGKILL)
        self.assertEqual(wait_for(listed, "a new brain finds the keys"), {key["id"]})
        self.assertEqual(pons.stop(), 0)

        pons = self.start_pons()
        names = {project["name"] for project in self.command(pons, "project", "ls")["projects"]}
        self.assertEqual(names, {"default", "web", "after"})
        self.assertIn("pg_dump", pons.command("backup", f"{self.directory}/copy.db").stderr)

    def test_every_connection_is_tls_and_scram(self):
        self.start_pons()
        rows = self.postgres.psql(
            "postgres",
            "SELECT count(*), bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'pons'")
        count, encrypted = rows.split("|")
        self.assertGreaterEqual(int(count), 6)
        self.assertEqual(encrypted, "t")


class ThePassword(PostgresTestCase):
    def test_it_is_neither_in_the_memory_of_the_brain_nor_in_its_environment_nor_in_any_file(self):
        pons = self.start_pons()
        self.command(pons, "project", "create", "web")
        secret = PASSWORD.encode()
        roles = pons.role_pids()
        for role in ("brain", "front", "egress", "warden", "spawner"):
            self.assertFalse(is_in_memory(roles[role], secret), role)
            with open(f"/proc/{roles[role]}/environ", "rb") as environment:
                self.assertNotIn(secret, environment.read())
        self.assertTrue(is_in_memory(roles["gateway"], secret), "the search finds nothing even where it is")
        for path in glob.glob(f"{self.directory}/**", recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    self.assertNotIn(secret, file.read(), path)
        self.assertNotIn(PASSWORD, pons.log + pons.output)


class Refusals(PostgresTestCase):
    def test_a_wrong_password_says_so(self):
        said = self.failure(self.config(), {"DATABASE_PASSWORD": "wrong"})
        self.assertIn("password authentication failed", said)

    def test_a_certificate_of_somebody_else_is_refused(self):
        other = Postgres.__new__(Postgres)
        other.directory = self.directory
        other.make_certificates()
        said = self.failure(self.config(authority=f"{self.directory}/authority.pem"))
        self.assertIn("certificate verify failed", said)

    def test_a_name_that_the_certificate_does_not_have_is_refused(self):
        said = self.failure(self.config(url=self.postgres.url(host="127.0.0.1")))
        self.assertIn("does not match host name", said)

    def test_a_server_that_may_forget_is_refused(self):
        self.postgres.psql("postgres", "ALTER ROLE pons SET synchronous_commit = off")
        self.assertIn("synchronous_commit is off", self.failure(self.config()))

    def test_a_server_that_is_not_there_is_named(self):
        self.postgres.stop()
        said = self.failure(self.config())
        self.assertIn("postgres://localhost/work", said)
        self.assertIn("Connection refused", said)

    def test_a_password_in_the_file_is_refused_and_not_shown(self):
        done = self.run_pons("up", "--config", self.write_file(
            "bad.yaml", "store:\n  postgres: postgres://pons:hunter2@localhost/work\n"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("store.postgres", done.stderr)
        self.assertIn("password", done.stderr)
        self.assertNotIn("hunter2", done.stdout + done.stderr)
