"""Bad calls of every route of the Managed Agents API: who asks wrongly is told so in the API's own words, and by no 500."""

import hashlib
import http.client
import json
import secrets

from managed_matrix import (LONG, Row, agent, credential, deployment, environment, replaced, rows, routes, session, with_nul,
                            with_too_much, with_unknown_members, with_values, with_wrong_types)
from pons_fixture import PATIENCE_SECONDS, PonsTestCase, wait_for
from session_world import calls, config, play, text
from test_managed import bash
from warden_client import end_orderly

TYPES = {400: "invalid_request_error", 403: "permission_error", 404: "not_found_error", 409: "conflict_error",
         413: "invalid_request_error"}
# What names nothing, in whatever way it is written.
NOTHING = ("none", "%00", "%ff%fe", "%e4", "..%2f..", "%2e%2e", "'%20OR%201=1", "a" * 3000)
MALFORMED = (b"{", b"[]", b"null", b'"text"', b"7", b'{"a": 1,}', b"{} {}", b'{"a": "\xff\xfe"}', b'{"name": "\\ud800"}',
             b"[" * 10_000, b'{"a":' * 200 + b"1" + b"}" * 200, b"\0")
ANSWERS = [*play("look around", calls(bash("ls /")), text("Seen.")), text("Hello.")]


class Project:
    """Whoever has a key of one project, and what was made with it: ids by name."""

    def __init__(self, case, key):
        self.case = case
        self.key = key
        self.world = {"secret": secrets.token_urlsafe(32)}

    def send(self, method, target, body=None, is_stream=False, **headers):
        """Status, header fields and body; of a stream only that it begins."""
        connection = http.client.HTTPConnection(*self.case.pons.address, timeout=PATIENCE_SECONDS)
        try:
            try:
                connection.request(method, target, body=body, headers={"X-API-Key": self.key, **headers})
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has heard enough; its answer can still be read
            response = connection.getresponse()
            content = b"" if is_stream and response.status == 200 else response.read()
            return response.status, response.headers, content
        finally:
            connection.close()

    def ask(self, method, target, body=None):
        status, _, content = self.send(method, target, None if body is None else json.dumps(body).encode())
        self.case.assertEqual(status, 200, f"{method} {target} {content[:500]}")
        return json.loads(content)

    def make(self, name, target, body):
        self.world[name] = self.ask("POST", target, body)["id"]
        return self.world[name]

    def make_archived(self, name, target, body):
        self.make(name, target, body)
        self.ask("POST", f"{target}/{self.world[name]}/archive")

    def upload(self):
        form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nwords\r\n--b--\r\n'
        return self.send("POST", "/v1/files", form, **{"Content-Type": "multipart/form-data; boundary=b"})

    def make_world(self):
        world = self.world
        world["file"] = json.loads(self.upload()[2])["id"]
        for name, make in (("make", self.make), ("archived_", self.make_archived)):
            prefix = "" if name == "make" else name
            make(prefix + "agent", "/v1/agents", agent(world))
            make(prefix + "environment", "/v1/environments", environment(world))
            make(prefix + "store", "/v1/memory_stores", {"name": "notes"})
            make(prefix + "vault", "/v1/vaults", {"display_name": "ours"})
        self.make("memory", f"/v1/memory_stores/{world['store']}/memories", {"path": "/a.md", "content": "first"})
        self.ask("POST", f"/v1/memory_stores/{world['store']}/memories/{world['memory']}", {"content": "second"})
        world["digest"] = hashlib.sha256(b"second").hexdigest()
        world["version"] = self.ask("GET", f"/v1/memory_stores/{world['store']}/memory_versions")["data"][-1]["id"]
        self.make("credential", f"/v1/vaults/{world['vault']}/credentials", credential(world))
        self.make_archived("archived_credential", f"/v1/vaults/{world['vault']}/credentials", {
            "auth": {**credential(world)["auth"], "secret_name": "OLD_TOKEN"}})
        self.make_sessions()
        self.make("deployment", "/v1/deployments", deployment(world))
        self.make_archived("archived_deployment", "/v1/deployments", deployment(world))
        self.make("run", f"/v1/deployments/{world['deployment']}/run", None)

    def make_sessions(self):
        world = self.world
        self.make("session", "/v1/sessions", {**session(world), "initial_events": []})
        self.make_archived("archived_session", "/v1/sessions", {**session(world), "initial_events": []})
        world["thread"] = self.ask("GET", f"/v1/sessions/{world['session']}/threads")["data"][0]["id"]
        world["resource"] = self.ask("GET", f"/v1/sessions/{world['session']}/resources")["data"][0]["id"]
        self.make("own_environment", "/v1/environments", {"name": "mine", "config": {"type": "self_hosted"}})
        self.make("own_session", "/v1/sessions", {
            "agent": self.ask("POST", "/v1/agents", {"name": "a", "model": "stage",
                                                     "tools": [{"type": "agent_toolset_20260401"}]})["id"],
            "environment_id": world["own_environment"],
            "initial_events": [{"type": "user.message", "content": [{"type": "text", "text": "look around"}]}]})
        work = f"/v1/environments/{world['own_environment']}/work"
        world["work"] = wait_for(lambda: self.ask("GET", work)["data"], "there is work")[0]["id"]


class ManagedMatrix(PonsTestCase):
    def setUp(self):
        super().setUp()
        self.pons = self.start_pons()
        self.addCleanup(end_orderly, self.pons)
        self.rows = rows()
        self.ours = self.make_project("default")
        self.pons.command("project", "create", "other")
        self.theirs = self.make_project("other")

    def start_pons(self):
        return self.start(config(ANSWERS))

    def make_project(self, name):
        done = self.pons.command("key", "create", "test", "--project", name, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        project = Project(self, json.loads(done.stdout)["key"])
        wait_for(lambda: project.send("GET", "/v1/agents")[0] != 401, "the door knows the key")
        project.make_world()
        return project

    def for_each(self, check):
        """check(method, pattern, row) of every route; those that fail do not hide each other."""
        for route, row in self.rows.items():
            with self.subTest(route):
                check(*route.split(" "), row)

    @staticmethod
    def path(pattern, ids):
        for name, id in ids.items():
            pattern = pattern.replace("{" + name + "}", id)
        assert "{" not in pattern, pattern
        return pattern

    def own_path(self, pattern, row: Row, **other):
        return self.path(pattern, {name: self.ours.world[thing] for name, thing in row.at.items()} | other)

    def body_of(self, row):
        return json.dumps(row.body(self.ours.world)).encode() if row.body else None

    def assert_refused(self, answer, *statuses, because=""):
        status, headers, content = answer
        self.assertIn(status, statuses, f"{because} {content[:500]}")
        self.assertTrue(headers["content-type"].startswith("application/json"), f"{because} {headers}")
        said = json.loads(content)
        self.assertEqual((set(said), said["type"]), ({"type", "error", "request_id"}, "error"), because)
        self.assertEqual(said["error"]["type"], TYPES[status], because)
        self.assertTrue(said["error"]["message"], because)
        self.assertEqual(said["request_id"], headers["request-id"], because)

    def check_bodies(self, bodies, *statuses):
        """Of every route that reads one: each is refused."""
        done = []

        def check(method, pattern, row):
            if row.body is None:
                return
            target = self.own_path(pattern, row)
            for because, body in bodies(row.body(self.ours.world)):
                self.assert_refused(self.ours.send(method, target, json.dumps(body).encode()), *statuses, because=because)
                done.append(pattern)

        self.for_each(check)
        self.assertGreater(len(done), 50)

    # ---- the table

    def test_every_route_has_a_row_and_every_row_a_route(self):
        self.assertEqual(sorted(self.rows), sorted(" ".join(route) for route in routes()))

    def test_what_is_not_there_is_not_found(self):
        def check(method, pattern, row):
            for name in row.at:
                own = self.ours.world[row.at[name]]
                for id in (own.rsplit("_", 1)[0] + "_none", own + "x", own[:-1], own.upper(), *NOTHING):
                    target = self.own_path(pattern, row, **{name: id})
                    self.assert_refused(self.ours.send(method, target, self.body_of(row)), 404, because=target[:200])

        self.for_each(check)

    def test_what_is_another_projects_is_not_there(self):
        def check(method, pattern, row):
            if row.at:
                answer = self.theirs.send(method, self.own_path(pattern, row), self.body_of(row))
                self.assert_refused(answer, 404)
            if len(row.at) > 1:
                # Below something of their own it is not there either.
                outer = {"id": self.theirs.world[row.at["id"]]}
                answer = self.theirs.send(method, self.own_path(pattern, row, **outer), self.body_of(row))
                self.assert_refused(answer, 404)
            if row.is_list and not row.at:
                shown = json.dumps(self.theirs.ask(method, pattern))
                for id in self.ours.world.values():
                    self.assertNotIn(id, shown)

        self.for_each(check)

    def test_bodies_cannot_name_what_is_another_projects(self):
        done = []

        def check(method, pattern, row):
            if row.borrows:
                target = self.path(pattern, {name: self.theirs.world[thing] for name, thing in row.at.items()})
                self.assert_refused(self.theirs.send(method, target, self.body_of(row)), 400, 404)
                done.append(pattern)

        self.for_each(check)
        self.assertGreater(len(done), 3)

    def test_what_is_archived_is_not_changed(self):
        done = []

        def check(method, pattern, row):
            if not row.archived:
                return
            target = self.own_path(pattern, row, **{name: self.ours.world[thing] for name, thing in row.archived.items()})
            answer = self.ours.send(method, target, self.body_of(row))
            if row.archived_status == 200:
                self.assertEqual(answer[0], 200, answer[2])
            else:
                self.assert_refused(answer, row.archived_status)
            done.append(pattern)

        self.for_each(check)
        self.assertGreater(len(done), 40)

    def test_what_is_no_object_is_refused(self):
        def check(method, pattern, row):
            for body in MALFORMED if row.body or row.is_upload else ():
                self.assert_refused(self.ours.send(method, self.own_path(pattern, row), body), 400, because=body[:50])

        self.for_each(check)

    def test_forms_that_are_none_are_refused(self):
        part = b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
        file, end = part % (b"file", b"words"), b"--b--\r\n"
        for form in (b"", end, file, file[:-7], file + file + end, part % (b"colour", b"red") + end,
                     b"--b\r\n\r\nwords\r\n--b--\r\n",
                     *(file + part % (b"expires_in_seconds", value) + end for value in (b"", b"soon", b"-1", b"60", b"9" * 100))):
            answer = self.ours.send("POST", "/v1/files", form, **{"Content-Type": "multipart/form-data; boundary=b"})
            self.assert_refused(answer, 400, because=form)
        for kind in ("multipart/form-data", "multipart/form-data; boundary=", "text/plain",
                     "multipart/form-data; boundary=" + "b" * 100):
            self.assert_refused(self.ours.send("POST", "/v1/files", file + end, **{"Content-Type": kind}), 400, because=kind)

    def test_members_of_another_type_are_refused(self):
        self.check_bodies(with_wrong_types, 400)

    def test_members_that_nobody_knows_are_refused(self):
        self.check_bodies(with_unknown_members, 400)

    def test_values_that_mean_nothing_are_refused(self):
        def check(method, pattern, row):
            for because, body in with_values(row.body(self.ours.world), row.wrong) if row.wrong else ():
                answer = self.ours.send(method, self.own_path(pattern, row), json.dumps(body).encode())
                self.assert_refused(answer, 400, because=because)

        self.for_each(check)

    def test_what_was_overtaken_is_a_conflict_and_final(self):
        done = []

        def check(method, pattern, row):
            for path, value in row.stale.items():
                body = replaced(row.body(self.ours.world), path, value)
                answer = self.ours.send(method, self.own_path(pattern, row), json.dumps(body).encode())
                self.assertEqual((answer[0], answer[1]["x-should-retry"]), (409, "false"), answer[2])
                self.assertEqual(json.loads(answer[2])["type"], "error")
                done.append(pattern)

        self.for_each(check)
        self.assertGreater(len(done), 1)

    def test_what_is_too_long_is_refused(self):
        self.check_bodies(with_too_much, 400, 413)

        def check(method, pattern, row):
            if row.body:
                body = json.dumps({**row.body(self.ours.world), "filler": LONG + LONG}).encode()
                self.assert_refused(self.ours.send(method, self.own_path(pattern, row), body), 413)

        self.for_each(check)

    def test_queries_that_mean_nothing_are_refused(self):
        def check(method, pattern, row):
            for query in row.queries:
                target = f"{self.own_path(pattern, row)}?{query}"
                answer = self.ours.send(method, target, self.body_of(row), is_stream=row.is_stream)
                self.assert_refused(answer, 400, because=query)

        self.for_each(check)

    def test_methods_that_a_path_has_not_are_refused(self):
        known = {}

        def check(method, pattern, row):
            known.setdefault(pattern, (row, set()))[1].add(method)

        self.for_each(check)
        for pattern, (row, methods) in known.items():
            target = self.own_path(pattern, row)
            for method in {"GET", "POST", "DELETE", "PUT", "PATCH"} - methods:
                status, _, content = self.ours.send(method, target, b"{}")
                self.assertIn(status, (404, 405), f"{method} {target} {content[:200]}")
                self.assertEqual(json.loads(content)["type"], "error")

    def test_after_all_that_every_call_is_taken(self):
        def check(method, pattern, row):
            for because, body in with_nul(row.body(self.ours.world)) if row.body and row.step == 1 else ():
                status, _, content = self.ours.send(method, self.own_path(pattern, row), json.dumps(body).encode())
                self.assertIn(status, (200, 400), f"{because} {content[:200]}")

        self.for_each(check)
        self.rows = dict(sorted(self.rows.items(), key=lambda each: each[1].step))

        def check(method, pattern, row):
            target = self.own_path(pattern, row)
            if row.is_upload:
                answer = self.ours.upload()
            elif pattern.endswith(("/{id}/archive", "/{id}")) and row.at.get("id") == "session" and method != "GET":
                answer = wait_for(lambda: self.unless_at_work(method, target, row), "the session rests")
            else:
                answer = self.ours.send(method, target, self.body_of(row), is_stream=row.is_stream)
            self.assertEqual(answer[0], row.status, answer[2][:500])

        self.for_each(check)

    def unless_at_work(self, method, target, row):
        answer = self.ours.send(method, target, self.body_of(row))
        return None if answer[0] == 409 else answer
