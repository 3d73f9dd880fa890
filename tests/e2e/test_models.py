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


class FirstRun(ModelTestCase):
    def test_a_model_answers_without_any_configuration(self):
        pons = self.start()
        self.addCleanup(end_orderly, pons)
        status, _, body = self.post(pons, "/v1/messages", pons.token, json.dumps(
            {"model": "demo", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}).encode())
        self.assertEqual(status, 200, body)
        self.assertIn("This is Pons", json.loads(body)["content"][0]["text"])
