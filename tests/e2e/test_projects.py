"""What keys open and what projects may have, at the door of a running Pons."""

import json

from session_world import SessionTestCase, calls, one, play, provision, text

ANSWERS = [
    *play("work", calls(provision()), text("Worked.")),
    *play("hello", text("Hello.")),
]


class Projects(SessionTestCase):
    def setUp(self):
        super().setUp()
        self.start_agents(ANSWERS)

    def ask(self, client, method, path, body=None):
        status, answer = client.raw(method, path, None if body is None else json.dumps(body).encode())
        return status, json.loads(answer) if answer else None

    def test_a_key_opens_what_its_scopes_say_and_nothing_else(self):
        agent = {"name": "a", "model": "demo"}
        reads, works, makes, manages = (self.client_of(scopes=[scope])
                                        for scope in ("read", "sessions", "agents", "admin"))
        _, made = self.ask(makes, "POST", "/v1/agents", agent)
        _, environment = self.ask(makes, "POST", "/v1/environments", {"name": "e"})
        session = {"agent": made["id"], "environment_id": environment["id"]}
        for client, may in ((reads, (200, 403, 403, 403)), (works, (200, 403, 200, 403)),
                            (makes, (200, 200, 403, 403)), (manages, (200, 200, 200, 200))):
            answers = (self.ask(client, "GET", "/v1/agents")[0],
                       self.ask(client, "POST", "/v1/agents", agent)[0],
                       self.ask(client, "POST", "/v1/sessions", session)[0],
                       self.ask(client, "GET", "/x/api-keys")[0])
            self.assertEqual(answers, may)
        status, refused = self.ask(reads, "POST", "/v1/agents", agent)
        self.assertEqual((status, refused["error"]["type"]), (403, "permission_error"))
        self.assertIn("--scope agents", refused["error"]["message"])
        self.assertEqual(self.ask(reads, "POST", "/x/sessions", {"message": "hello"})[0], 403)

    def test_who_manages_a_project_makes_keys_for_it_and_takes_them_back(self):
        self.run_json("project", "create", "web")
        manager = self.client_of(project="web", scopes=["admin"])
        status, made = self.ask(manager, "POST", "/x/api-keys", {"name": "ci", "scopes": ["read"]})
        self.assertEqual(status, 201, made)
        client = type(manager)(self.pons, made["key"])
        self.assertEqual(client.raw("GET", "/x/sessions")[0], 200)
        self.assertEqual(self.ask(manager, "GET", "/x/project")[1]["name"], "web")
        own = {key["id"] for key in self.ask(manager, "GET", "/x/api-keys")[1]["keys"]}
        others = {key["id"] for key in self.run_json("key", "ls")["keys"]} - own
        self.assertTrue(others)
        for key in others:
            self.assertEqual(manager.raw("DELETE", f"/x/api-keys/{key}")[0], 404)
        self.assertEqual(self.client.raw("GET", "/x/sessions")[0], 200)
        self.assertEqual(manager.raw("DELETE", f"/x/api-keys/{made['id']}")[0], 200)
        self.assertEqual(client.raw("GET", "/x/sessions")[0], 401)

    def test_limits_of_a_project_hold_for_sessions_and_sandboxes_however_they_are_made(self):
        self.run_json("project", "limit", "default", "--sessions", "2", "--sandboxes", "0")
        session = self.client.create("work")
        events = self.finish(session)
        refused = one(events, "tool.ended")
        self.assertIn("the most it may have", refused["text"])
        self.assertEqual(self.sandboxes_of(session), set())
        status, answer = self.ask(self.client, "POST", "/sandboxes", {"templateID": "host"})
        self.assertEqual(status, 429, answer)
        self.client.create("hello")
        status, answer = self.ask(self.client, "POST", "/x/sessions", {"message": "hello"})
        self.assertEqual(status, 429, answer)
        self.run_json("project", "limit", "default", "--sessions", "none", "--sandboxes", "none")
        self.finish(self.client.create("work"))

    def test_keys_of_a_project_ask_no_more_often_than_it_may(self):
        self.run_json("project", "create", "web")
        hasty = self.client_of(project="web")
        project = self.run_json("project", "limit", "web", "--requests-per-second", "3")
        self.assertEqual(project["limits"]["requests_per_second"], 3)
        statuses = [hasty.raw("GET", "/x/sessions")[0] for _ in range(30)]
        self.assertIn(429, statuses)
        self.assertIn(200, statuses)
        self.assertEqual({self.client.raw("GET", "/x/sessions")[0] for _ in range(30)}, {200})
