"""Calls to models: the official SDKs over every protocol, and the keys that pay for them."""

import json

from model_world import SCRIPT, ModelTestCase, free_port
from warden_client import end_orderly


class Models(ModelTestCase):
    def setUp(self):
        super().setUp()
        port = free_port()
        stage = self.start(SCRIPT + f"gateway:\n  listen: 127.0.0.1:{port}\n", state_dir=f"{self.directory}/stage",
                           binary=self.copy_program(self.binary, "pons-stage"))
        self.stage = stage
        self.addCleanup(end_orderly, stage)
        stage_key = self.make_key(stage)
        providers = "".join(
            f"  by-{protocol}: {{kind: openai-compatible, protocols: [{protocol}], url: 'http://127.0.0.1:{port}/v1',"
            " key_env: STAGE_KEY}\n"
            for protocol in ("messages", "chat", "responses")
        )
        models = "".join(
            f"  through-{protocol}: {{try: [by-{protocol}/stage]}}\n" for protocol in ("messages", "chat", "responses")
        )
        self.pons = self.start(f"providers:\n{providers}models:\n{models}gateway:\n  unknown_price: dearest\n",
                               environment={"STAGE_KEY": stage_key})
        self.addCleanup(end_orderly, self.pons)
        self.key = self.make_key(self.pons)

    def test_every_protocol_over_every_other(self):
        self.run_suite("matrix", self.pons, self.key)
        usage = self.usage(self.pons)
        self.assertTrue(any(row["requests"] > 50 for row in usage), usage)
        # What was counted here is what was counted where the answers were made. Two of the protocols have no words for
        # what of a prompt was written to a cache.
        here, there = ((sum(row["input_tokens"] + row["cache_read_tokens"] + row["cache_write_tokens"] +
                            row["cache_write_hour_tokens"] for row in rows),
                        sum(row["output_tokens"] for row in rows)) for rows in (usage, self.usage(self.stage)))
        self.assertGreater(min(here), 1_000)
        self.assertEqual(here, there)

    def test_the_models_and_what_they_cost_are_listed(self):
        done = self.pons.command("models", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        listed = {(one["name"], one["provider"], one["model"]) for one in json.loads(done.stdout)["models"]}
        self.assertIn(("through-chat", "by-chat", "stage"), listed)
        shown = self.pons.command("models").stdout
        self.assertIn("through-messages", shown)

    def test_what_a_key_may_use_is_changed_with_the_next_call(self):
        made = json.loads(self.pons.command("keys", "create", "ana", "--json").stdout)

        def status(model="through-chat"):
            return self.call(self.pons, made["key"], model=model)[0]

        self.assertEqual(status(), 200)
        for words, expected in ((["--limit", "1requests/total"], 429), (["--no-limits"], 200),
                                (["--model", "through-messages"], 403), (["--model", "*"], 200)):
            done = self.pons.command("keys", "set", made["id"], *words)
            self.assertEqual((done.returncode, status()), (0, expected), (words, done.stderr))
        done = self.pons.command("keys", "set", made["id"], "--limit", "60sandbox_seconds/day")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("project", done.stderr)
        self.assertNotEqual(self.pons.command("keys", "set", made["key"], "--no-limits").returncode, 0, "the key itself")


    def test_all_usage_and_all_keys_are_told_however_many_there_are(self):
        for number in range(3):
            self.assertEqual(self.pons.command("keys", "create", f"key-{number}").returncode, 0)
        names = [key["name"] for key in json.loads(self.pons.command("keys", "ls", "--json").stdout)["keys"]]
        self.assertEqual([name for name in names if name.startswith("key-")], ["key-0", "key-1", "key-2"], "in their order")
        key = next(key for key in json.loads(self.pons.command("keys", "ls", "--json").stdout)["keys"] if key["name"] == "key-1")
        self.assertEqual(self.pons.command("keys", "revoke", key["id"]).returncode, 0)
        self.assertNotIn("key-1", self.pons.command("keys", "ls").stdout)
        self.assertIn("key-1", self.pons.command("keys", "ls", "--all").stdout)
        made = json.loads(self.pons.command("key", "create", "test", "--json").stdout)["key"]
        for name in ("through-chat", "through-messages", "through-responses"):
            self.assertEqual(self.call(self.pons, self.key, model=name)[0], 200)
        rows, page = [], ""
        while page is not None:
            status, body = self.pons.request("/x/usage?limit=1" + (page and f"&page={page}"),
                                             headers={"Authorization": f"Bearer {made}"})
            self.assertEqual(status, 200, body)
            answer = json.loads(body)
            self.assertLessEqual(len(answer["usage"]), 1)
            rows += answer["usage"]
            page = answer["next_page"]
        self.assertEqual(sum(row["requests"] for row in rows), 3)
        self.assertEqual(sum(row["requests"] for row in self.usage(self.pons, "--key", rows[0]["key"])), 3)


class FirstRun(ModelTestCase):
    def test_a_model_answers_without_any_configuration(self):
        pons = self.start()
        self.addCleanup(end_orderly, pons)
        status, _, body = self.post(pons, "/v1/messages", pons.token, json.dumps(
            {"model": "demo", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}).encode())
        self.assertEqual(status, 200, body)
        self.assertIn("This is Pons", json.loads(body)["content"][0]["text"])
