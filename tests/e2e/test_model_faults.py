"""Providers, clients and the gateway itself, as badly behaved as they come."""

import concurrent.futures
import json
import os
import signal
import socket
import time

from model_world import (CHAT_USAGE, DONE, SECRET, WHOLE_ANSWER, WHOLE_STREAM, FakeProvider, ModelTestCase, chunk, reset,
                         respond, stream)
from pons_fixture import read_text, wait_for
from warden_client import end_orderly

CONFIG = """
providers:
  first: {{kind: openai-compatible, url: '{first}', key_env: PROVIDER_KEY, first_event_seconds: 2, next_event_seconds: 2,
    whole_seconds: 2}}
  second: {{kind: openai-compatible, url: '{second}', key_env: [PROVIDER_KEY, PROVIDER_KEY_2]}}
  nobody: {{kind: openai-compatible, url: 'http://127.0.0.1:1/v1'}}
  untrusted: {{kind: openai-compatible, url: 'https://127.0.0.1:{tls}/v1'}}
  responses: {{kind: openai-compatible, url: '{first}', protocols: [responses], key_env: PROVIDER_KEY, next_event_seconds: 2}}
  messages: {{kind: openai-compatible, url: '{first}', protocols: [messages], key_env: PROVIDER_KEY}}
  stage:
    kind: scripted
    answers: [{{text: done, delay_ms: 1500, usage: {{input: 40, output: 100}}}}]
models:
  test: {{try: [first/gpt-5]}}
  spare: {{try: [first/gpt-5, second/gpt-5-mini]}}
  two-keys: {{try: [second/gpt-5]}}
  spread: {{order: by_weight, try: [first/gpt-5, second/gpt-5]}}
  dead: {{try: [nobody/gpt-5]}}
  dead-first: {{try: [nobody/gpt-5, second/gpt-5]}}
  forged: {{try: [untrusted/gpt-5]}}
  own-responses: {{try: [responses/gpt-5]}}
  spare-messages: {{try: [messages/claude-sonnet-4-5, second/gpt-5-mini]}}
  slow: {{try: [stage/gpt-5]}}
  windows: {{try: [{{model: first/gpt-5, context_tokens: 1000}}, {{model: second/gpt-5, context_tokens: 900}},
    {{model: second/gpt-5-mini, context_tokens: 100000}}]}}
"""
OVERLOADED = {"error": {"message": "busy", "type": "server_error", "code": None, "param": None}}
LIMITED = {"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded", "param": None}}
BAD_KEY = {"error": {"message": f"Incorrect API key provided: {SECRET}", "type": "invalid_request_error",
                     "code": "invalid_api_key", "param": None}}
TOO_LONG = {"error": {"message": "This model's maximum context length is 1000 tokens.", "type": "invalid_request_error",
                      "code": "context_length_exceeded", "param": "messages"}}


class Faults(ModelTestCase):
    def setUp(self):
        super().setUp()
        self.first = FakeProvider(self)
        self.second = FakeProvider(self)
        self.second.answers = [respond(200, {**WHOLE_ANSWER, "model": "second"})]
        self.pons = self.start("gateway: {unknown_price: dearest}\n" + CONFIG.format(first=self.first.url, second=self.second.url, tls=self.first.port),
                               environment={"PROVIDER_KEY": SECRET, "PROVIDER_KEY_2": SECRET + "2"})
        self.addCleanup(end_orderly, self.pons)
        self.key = self.make_key(self.pons)

    def answers(self, *answers, provider=None):
        provider = provider or self.first
        provider.answers = list(answers)
        provider.requests.clear()
        for answer in answers:
            answer.provider = provider

    broken = 0

    def text_of(self, body, protocol="chat"):
        answer = json.loads(body)
        return answer["choices"][0]["message"]["content"] if protocol == "chat" else answer["content"][0]["text"]

    def assert_nowhere(self, secret):
        """The provider's key is in no answer and no log."""
        self.assertNotIn(secret, self.pons.log)

    # ---- requests

    def test_what_is_no_request_is_refused_in_the_clients_own_shape(self):
        self.answers(respond(200, WHOLE_ANSWER))
        bad = [b"", b"{", b"[]", b'{"model":7}', b'{"messages":[]}', b'{"model":"test","model":"spare","messages":[]}',
               b'{"model":"\xff"}', b'{"model":"test","stream":"yes"}', b'{"model":"test"} trailing']
        for body in bad:
            status, _, text = self.post(self.pons, "/v1/messages", self.key, body)
            self.assertEqual((status, json.loads(text)["type"], json.loads(text)["error"]["type"]),
                             (400, "error", "invalid_request_error"), body)
            status, _, text = self.post(self.pons, "/v1/chat/completions", self.key, body)
            self.assertEqual((status, json.loads(text)["error"]["type"]), (400, "invalid_request_error"), body)
        self.assertEqual(self.first.requests, [])
        status, _, text = self.post(self.pons, "/v1/messages", self.key, b"x" * (34 << 20))
        self.assertEqual(status, 413)

    def test_an_unknown_model_and_an_unknown_key(self):
        status, _, text = self.call(self.pons, self.key, model="nonsense")
        self.assertEqual((status, json.loads(text)["error"]["type"]), (404, "not_found_error"))
        for key in ("", "ponsm_" + "0" * 40, "pons_" + "0" * 40, "sk-ant-x"):
            status, _, text = self.call(self.pons, key)
            self.assertEqual((status, json.loads(text)["error"]["type"]), (401, "authentication_error"), key)
            status, _, text = self.call(self.pons, key, protocol="chat")
            self.assertEqual((status, json.loads(text)["error"]["code"]), (401, "invalid_api_key"), key)

    def test_a_revoked_key_is_refused_at_once(self):
        self.answers(respond(200, WHOLE_ANSWER))
        self.assertEqual(self.call(self.pons, self.key)[0], 200)
        keys = json.loads(self.pons.command("keys", "ls", "--json").stdout)["keys"]
        own = next(key for key in keys if key["name"] == "test")
        self.assertEqual(self.pons.command("keys", "revoke", own["id"]).returncode, 0)
        self.assertEqual(self.call(self.pons, self.key)[0], 401)

    def test_a_used_up_budget_stops_calls_before_the_provider_hears_of_them(self):
        self.answers(respond(200, WHOLE_ANSWER))
        key = self.make_key(self.pons, "--limit", "2requests/day")
        self.assertEqual([self.call(self.pons, key, protocol="chat")[0] for _ in range(2)], [200, 200])
        status, fields, text = self.call(self.pons, key, protocol="chat")
        self.assertEqual((status, json.loads(text)["error"]["code"]), (429, "insufficient_quota"))
        self.assertGreater(int(fields["retry-after"]), 0)
        self.assertEqual(len(self.first.requests), 2)
        status, _, text = self.call(self.pons, key)
        self.assertEqual((status, json.loads(text)["error"]["type"]), (429, "rate_limit_error"))

    def test_a_thousand_calls_at_once_spend_no_more_than_the_limit_of_their_key(self):
        limit, used_by_each = 5_000, 140
        made = json.loads(self.pons.command("keys", "create", "narrow", "--json", "--limit", f"{limit}tokens/day").stdout)
        body = json.dumps({"model": "slow", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}).encode()
        request = (b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: close\r\n"
                   b"Content-Length: %d\r\n\r\n%s" % (made["key"].encode(), len(body), body))
        clients = [socket.create_connection(self.pons.address, timeout=60) for _ in range(1_000)]
        try:
            for client in clients:  # all are there before the first answer is
                client.sendall(request)
            statuses = []
            for client in clients:
                with client.makefile("rb") as answer:
                    statuses.append(int(answer.readline().split()[1]))
        finally:
            for client in clients:
                client.close()
        answered = statuses.count(200)
        # Some find no room at the door at all.
        self.assertLessEqual(set(statuses), {200, 429, 503})
        self.assertGreater(statuses.count(429), 100)
        self.assertGreater(answered, 5)
        row = next(row for row in self.usage(self.pons, "--key", made["id"]))
        used = row["input_tokens"] + row["output_tokens"]
        self.assertEqual((row["requests"], used), (answered, answered * used_by_each))
        self.assertLessEqual(used, limit)
        # What was reserved and not used is there again.
        while used + 250 < limit:
            self.assertEqual(self.call(self.pons, made["key"], model="slow", protocol="chat")[0], 200)
            used += used_by_each

    def test_names_that_a_client_chooses_break_no_answer(self):
        self.answers(respond(200, WHOLE_ANSWER))
        status, fields, _ = self.call(self.pons, self.key, more={"a\nb": 1, "x" * 60_000: 2, "future_field": 1})
        self.assertEqual(status, 200)
        self.assertIn("future_field", fields["x-pons-omitted"])
        for name in ("first/gpt\n5", "first/" + "x" * 500, "first/", "first/gpt 5"):
            self.assertIn(self.call(self.pons, self.key, model=name)[0], (400, 404), name)
        self.assertEqual(self.call(self.pons, self.key)[0], 200, "the gateway lives")

    def test_what_would_escape_the_count_is_refused_or_reserved(self):
        self.answers(respond(200, WHOLE_ANSWER))
        status, _, text = self.call(self.pons, self.key, protocol="responses", more={"background": True})
        self.assertEqual(status, 400, text)
        for kept in ({"conversation": "conv_1"}, {"messages": [{"type": "item_reference", "id": "msg_1"}]}):
            status, _, text = self.call(self.pons, self.key, protocol="responses", more=kept)
            self.assertEqual(status, 400, text)
        status, _, text = self.call(self.pons, self.key, protocol="responses", more={"previous_response_id": "resp_1"})
        self.assertEqual((status, json.loads(text)["error"]["code"]), (400, "previous_response_not_found"))
        key = self.make_key(self.pons, "--limit", "20000tokens/day")
        self.assertEqual(self.call(self.pons, key, protocol="chat")[0], 200)
        for more in ({"n": 500}, {"max_tokens": None}, {"max_tokens": None, "max_output_tokens": 1}):
            self.assertEqual(self.call(self.pons, key, protocol="chat", more=more)[0], 429, more)

    # ---- providers

    def test_a_provider_that_fails_is_asked_again_and_then_the_next(self):
        self.answers(respond(500, OVERLOADED), respond(200, WHOLE_ANSWER))
        self.assertEqual(self.call(self.pons, self.key, protocol="chat")[0], 200)
        self.assertEqual(len(self.first.requests), 2)
        self.answers(respond(503, OVERLOADED))
        status, fields, text = self.call(self.pons, self.key, model="spare", protocol="chat")
        self.assertEqual((status, fields["x-pons-provider"], self.text_of(text)), (200, "second", "Hello world"))
        status, _, text = self.call(self.pons, self.key)
        self.assertEqual((status, json.loads(text)["error"]["type"]), (529, "overloaded_error"))

    def test_a_provider_that_is_overloaded_in_its_own_way_makes_room_for_the_next(self):
        busy = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        self.answers(respond(529, busy))
        status, fields, _ = self.call(self.pons, self.key, model="spare-messages")
        self.assertEqual((status, fields["x-pons-provider"]), (200, "second"))
        self.assertEqual(len(self.first.requests), 2, "it was asked once more")
        status, _, text = self.call(self.pons, self.key, model="messages/claude-haiku-4-5")
        self.assertEqual((status, json.loads(text)["error"]), (529, {"type": "overloaded_error", "message": "Overloaded"}))
        status, _, text = self.call(self.pons, self.key, model="messages/claude-opus-4-5", protocol="chat")
        self.assertEqual((status, json.loads(text)["error"]["message"]), (503, "Overloaded"))

    def test_a_conversation_with_a_name_meets_the_same_provider_again(self):
        self.answers(respond(200, WHOLE_ANSWER))
        for field in ("x-session-id", "x-claude-code-session-id"):
            met = set()
            for conversation in range(16):
                fields = {field: f"conversation-{conversation}"}
                answered = {self.call(self.pons, self.key, model="spread", fields=fields, more={"system": words})[1]["x-pons-provider"]
                            for words in ("one", "two", "three")}
                self.assertEqual(len(answered), 1, (field, conversation))
                met |= answered
            self.assertEqual(met, {"first", "second"})

    def test_nobody_there_and_somebody_else_there(self):
        status, _, text = self.call(self.pons, self.key, model="dead")
        self.assertEqual((status, json.loads(text)["error"]["type"]), (502, "api_error"))
        self.assertEqual(self.call(self.pons, self.key, model="dead-first", protocol="chat")[0], 200)
        status, _, _ = self.call(self.pons, self.key, model="forged")  # speaks no TLS at all
        self.assertEqual(status, 502)

    def test_a_refused_provider_key_is_not_the_callers_fault(self):
        self.answers(respond(401, BAD_KEY))
        status, _, text = self.call(self.pons, self.key)
        self.assertEqual(status, 502)
        self.assertNotIn(SECRET, text)
        self.assert_nowhere(SECRET)
        # Whoever calls while the key rests hears the same.
        status, _, text = self.call(self.pons, self.key, protocol="chat")
        self.assertEqual((status, len(self.first.requests)), (502, 1), text)

    def test_what_a_client_may_not_do_there_takes_no_key_from_others(self):
        self.answers(respond(403, BAD_KEY), respond(200, WHOLE_ANSWER), provider=self.second)
        status, _, text = self.call(self.pons, self.key, model="two-keys", protocol="chat")
        self.assertEqual(status, 502)
        self.assertNotIn(SECRET, text)
        self.assertEqual(self.call(self.pons, self.key, model="two-keys", protocol="chat")[0], 200)

    def test_a_limited_key_makes_way_for_the_next(self):
        self.answers(respond(429, LIMITED, retry_after=30), respond(200, WHOLE_ANSWER), provider=self.second)
        status, _, _ = self.call(self.pons, self.key, model="two-keys", protocol="chat")
        self.assertEqual(status, 200)
        sent = [request["fields"]["authorization"] for request in self.second.requests]
        self.assertEqual(sent, [f"Bearer {SECRET}", f"Bearer {SECRET}2"])

    def test_a_limit_without_a_way_around_reaches_the_client_with_its_time(self):
        self.answers(respond(429, LIMITED, retry_after=300))
        status, fields, text = self.call(self.pons, self.key)
        self.assertEqual((status, json.loads(text)["error"]["type"]), (429, "rate_limit_error"))
        self.assertGreater(int(fields["retry-after"]), 30)

    def test_a_prompt_that_is_too_long_goes_to_a_larger_model(self):
        self.answers(respond(400, TOO_LONG))
        status, fields, _ = self.call(self.pons, self.key, model="windows", protocol="chat")
        self.assertEqual((status, fields["x-pons-model"]), (200, "gpt-5-mini"))
        self.assertEqual(len(self.second.requests), 1)

    def test_silence_before_an_answer_ends_in_the_next_provider_or_an_error(self):
        def say_nothing(connection, _):
            self.first.wait_for_hang_up(connection)

        for answer in (stream(end="hang"), say_nothing):
            self.answers(answer)
            status, fields, _ = self.call(self.pons, self.key, model="spare", protocol="chat", stream=True)
            self.assertEqual((status, fields["x-pons-provider"]), (200, "second"))

    def test_who_is_asked_last_has_twice_the_time(self):
        def answer_late(connection, request):
            time.sleep(2.5)  # more than first_event_seconds, less than twice that
            stream(*WHOLE_STREAM)(connection, request)

        self.answers(answer_late)
        status, fields, _ = self.call(self.pons, self.key, model="spare", protocol="chat", stream=True)
        self.assertEqual((status, fields["x-pons-provider"]), (200, "second"))
        status, fields, text = self.call(self.pons, self.key, protocol="chat", stream=True)
        self.assertEqual((status, fields["x-pons-provider"]), (200, "first"), text)
        self.assertIn("[DONE]", text)

    def broken_stream(self, *pieces, end="chunked", pause=0.1, protocol="chat"):
        self.answers(stream(*pieces, end=end, pause=pause))
        # One that fails often is left alone for a while: each time another model.
        self.broken += 1
        status, _, text = self.call(self.pons, self.key, model=f"first/gpt-{self.broken}", protocol=protocol, stream=True)
        self.assertEqual(status, 200)
        return text

    def test_a_stream_that_breaks_ends_with_an_error_and_without_an_end(self):
        cut = (chunk("Hello"), chunk(" wor"))
        for pieces, end in ((cut, "cut"), (cut, "chunked"), (cut, "hang"), ((*cut, "data: {\"id\": \"c"), "cut"),
                            ((*cut, "data: not json\n\n"), "chunked"),
                            ((*cut, "data: " + json.dumps(OVERLOADED) + "\n\n"), "chunked")):
            text = self.broken_stream(*pieces, end=end)
            self.assertIn("Hello", text)
            self.assertIn('"error"', text, (pieces, end))
            self.assertNotIn("[DONE]", text)
            text = self.broken_stream(*pieces, end=end, protocol="messages")
            self.assertIn("event: error", text, (pieces, end))
            self.assertNotIn("message_stop", text)
            text = self.broken_stream(*pieces, end=end, protocol="responses")
            self.assert_failed_response(text)

    def assert_failed_response(self, text):
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))), text)
        self.assertEqual((events[0]["type"], events[-1]["type"]), ("response.created", "response.failed"), text)
        self.assertEqual((events[-1]["response"]["id"], events[-1]["response"]["status"]),
                         (events[0]["response"]["id"], "failed"), text)
        self.assertNotIn("response.completed", text)
        return events

    def test_a_response_that_fails_at_its_provider_ends_in_the_providers_words(self):
        def event(kind, number, **more):
            return f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': number, **more})}\n\n"

        begun = (event("response.created", 0, response={"id": "resp_1", "object": "response", "model": "m", "status": "in_progress"}),
                 event("response.output_text.delta", 1, item_id="msg_1", output_index=0, content_index=0, delta="Hello"))
        error = {"code": "server_error", "message": f"no luck with {SECRET}"}
        failed = event("response.failed", 2, response={"id": "resp_1", "status": "failed", "error": error, "future": 1})
        for pieces in ((*begun, failed), (*begun, event("error", 2, **error, param=None)), begun):
            self.answers(stream(*pieces, pause=0.2))
            status, _, text = self.call(self.pons, self.key, model="own-responses", protocol="responses", stream=True)
            self.assertEqual(status, 200)
            self.assertTrue(text.startswith("".join(begun)), text)
            events = self.assert_failed_response(text)
            if failed in pieces:
                self.assertEqual(events[-1]["response"]["future"], 1, "as the provider said it")
            self.assertNotIn(SECRET, text)
            self.assertTrue(pieces == begun or "no luck" in text, text)

    def test_comments_that_trickle_in_are_no_progress_of_an_answer(self):
        for protocol in ("chat", "messages", "responses"):
            text = self.broken_stream(chunk("Hello"), *[": wait\n\n"] * 100, pause=0.2, protocol=protocol)
            self.assertIn("Hello", text)
            self.assertIn("did not answer in time", text)
            self.assertNotIn("[DONE]", text)

    def test_a_connection_that_breaks_behind_the_end_of_an_answer_takes_nothing_from_it(self):
        at_once = ("".join(WHOLE_STREAM),)
        # More often than a provider may fail until it is left alone.
        for pieces, end, framing, pause in ((WHOLE_STREAM, "reset", "chunked", 0.1), (WHOLE_STREAM, "cut", "chunked", 0.1),
                                            (WHOLE_STREAM, "reset", "close", 0.1), (at_once, "reset", "chunked", 0),
                                            (at_once, "reset", "close", 0), (at_once, "cut", "chunked", 0),
                                            (at_once, "hang", "chunked", 0)):
            self.answers(stream(*pieces, end=end, framing=framing, pause=pause))
            status, _, text = self.call(self.pons, self.key, protocol="chat", stream=True)
            self.assertEqual((status, text), (200, "".join(WHOLE_STREAM[:3]) + DONE), (pieces, end, framing))
            status, _, text = self.call(self.pons, self.key, stream=True)
            self.assertEqual((status, text.count("event: message_stop"), text.count("event: error")), (200, 1, 0), (end, framing))
            if end == "hang":
                continue  # who asked for a whole answer waits for the end of it
            status, _, text = self.call(self.pons, self.key)
            self.assertEqual((status, self.text_of(text, "messages")), (200, "Hello world"), (end, framing))
        rows = [row for row in self.usage(self.pons) if row["model"] == "gpt-5"]
        self.assertEqual({row["output_tokens"] for row in rows}, {5 * (3 * 7 - 1)}, "as the provider counted it, each time")
        counted = self.pons.command("metrics").stdout
        self.assertRegex(counted, r'pons_model_calls_total\{[^}]*outcome="done"\} 20\n')
        self.assertNotRegex(counted, r'pons_model_calls_total\{[^}]*outcome="failed"\} [1-9]')

    def test_a_whole_answer_whose_connection_breaks_is_whole(self):
        text = json.dumps(WHOLE_ANSWER).encode()

        def answer(connection, _, cut=0):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                               b"%x\r\n%s\r\n" % (len(text) - cut, text[:len(text) - cut]))
            time.sleep(0.1)
            reset(connection)

        def answer_half(connection, request):
            answer(connection, request, cut=20)

        self.answers(answer)
        for protocol in ("chat", "messages"):
            status, _, body = self.call(self.pons, self.key, protocol=protocol)
            self.assertEqual((status, self.text_of(body, protocol)), (200, "Hello world"))
        self.answers(answer_half)
        self.assertEqual(self.call(self.pons, self.key, protocol="chat")[0], 502)

    def test_an_answer_that_was_not_told_to_its_end_is_broken_even_if_it_said_why_it_stops(self):
        for end in ("reset", "cut"):
            text = self.broken_stream(*WHOLE_STREAM[:3], end=end)
            self.assertIn("Hello", text)
            self.assertIn('"error"', text)
            self.assertNotIn("[DONE]", text)

    def test_what_came_before_a_stream_broke_reaches_the_client(self):
        # The first event alone, so that the answer has begun; the others and the end in one go.
        self.answers(stream(chunk("Hello"), chunk(" wor") + chunk("ld"), end="reset", pause=0))
        text = self.call(self.pons, self.key, protocol="chat", stream=True)[2]
        if "Hello" in text:  # else it came all at once, and nothing of it was told
            self.assertIn(" wor", text)
            self.assertIn("ld", text)
        self.assertIn('"error"', text)

    def test_a_client_that_waits_hears_that_somebody_is_there(self):
        def answer_late(connection, request):
            time.sleep(14)  # keep-alives come every ten seconds
            stream(*WHOLE_STREAM)(connection, request)

        self.answers(answer_late, provider=self.second)
        self.answers(respond(429, LIMITED, retry_after=14), stream(*WHOLE_STREAM))  # of the first, which is asked again
        with concurrent.futures.ThreadPoolExecutor() as pool:
            asked = {protocol: pool.submit(self.call, self.pons, self.key, model="two-keys", protocol=protocol, stream=True)
                     for protocol in ("messages", "chat", "responses")}
            between = pool.submit(self.call, self.pons, self.key, stream=True)
            texts = {protocol: one.result()[2] for protocol, one in asked.items()}
            self.assertTrue(between.result()[2].startswith("event: ping\n"), between.result()[2])
            self.assertIn("message_stop", between.result()[2])
        self.assertTrue(texts["messages"].startswith("event: ping\n"), texts["messages"])
        for protocol in ("chat", "responses"):
            self.assertTrue(texts[protocol].startswith(":"), texts[protocol])
        for protocol, end in (("messages", "message_stop"), ("chat", "[DONE]"), ("responses", "response.completed")):
            self.assertIn(end, texts[protocol])
            self.assertNotIn("error", texts[protocol].replace('"error":null', ""))

    def test_a_line_without_end_is_given_up_and_costs_no_memory(self):
        huge = b"data: " + b"x" * (1 << 20)
        self.answers(stream(chunk("Hello"), *([huge] * 100), end="cut"))
        text = self.call(self.pons, self.key, protocol="chat", stream=True)[2]
        self.assertIn('"error"', text)
        resident = next(line for line in read_text(f"/proc/{self.pons.role_pids()['gateway']}/status").splitlines()
                        if line.startswith("VmHWM"))
        self.assertLess(int(resident.split()[1]), 150_000, "kilobytes at the most so far")

    def test_bytes_that_trickle_in_are_no_answer(self):
        for piece in (": wait\n\n", "d"):
            self.answers(stream(*[piece] * 100, pause=0.2))
            asked = len(self.second.requests)
            status, _, text = self.call(self.pons, self.key, model="spare", protocol="chat", stream=True)
            # Behind a keep-alive the head is there already, with the name of the first.
            self.assertEqual((status, len(self.second.requests)), (200, asked + 1))
            self.assertIn("Hello", text)
            self.assertNotIn('"error"', text.replace('"error":null', ""))

    def test_a_provider_that_compresses_unasked_is_not_believed(self):
        self.answers(respond(200, WHOLE_ANSWER, content_encoding="gzip"))
        self.assertEqual(self.call(self.pons, self.key)[0], 502)

    def test_an_answer_that_is_no_answer(self):
        for body in (b"<html>", b"", b"[1]", b'{"choices":"none"}'):
            self.answers(respond(200, body))
            self.assertEqual(self.call(self.pons, self.key, model=f"first/gpt-{len(body)}")[0], 502, body)

    def test_events_twice_and_in_disorder_are_put_right_or_refused(self):
        text = self.broken_stream(chunk(usage=CHAT_USAGE), *WHOLE_STREAM[:3], chunk(usage=CHAT_USAGE), DONE, DONE,
                                  protocol="messages")
        self.assertEqual(text.count("event: message_start"), 1)
        self.assertEqual(text.count("event: message_stop"), 1)

    def test_bytes_pass_as_they_are_and_the_usage_is_counted(self):
        self.answers(stream(*WHOLE_STREAM))
        text = self.call(self.pons, self.key, protocol="chat", stream=True, more={"future_field": {"a": [1]}})[2]
        self.assertEqual(text, "".join(WHOLE_STREAM[:3]) + DONE, "without the usage that was not asked for")
        sent = json.loads(self.first.requests[0]["body"])
        self.assertEqual((sent["model"], sent["future_field"]), ("gpt-5", {"a": [1]}))
        self.assertTrue(sent["stream_options"]["include_usage"])
        row = next(row for row in self.usage(self.pons) if row["model"] == "gpt-5")
        self.assertEqual((row["input_tokens"], row["output_tokens"]), (10, 5))

    # ---- clients and the gateway

    def test_a_client_that_leaves_ends_the_call_and_pays(self):
        self.answers(stream(chunk("x" * 300), end="hang"))
        body = json.dumps({"model": "test", "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
        took = []
        while not took or (min(took) > 1 and len(took) < 5):  # on a machine that is busy otherwise
            self.first.gone.clear()
            with socket.create_connection(self.pons.address) as client:
                client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (self.key.encode(), len(body), body))
                wait_for(lambda: b"xxx" in client.recv(65536), "the stream begins")
                left = time.monotonic()
            took.append(wait_for(lambda: self.first.gone, "the provider is left")[0] - left)
        self.assertLess(min(took), 1)
        row = wait_for(lambda: next((row for row in self.usage(self.pons) if row["model"] == "gpt-5"), None), "it is counted")
        self.assertGreater(row["output_tokens"], 50)

    def test_a_client_that_leaves_pays_what_the_provider_says_of_an_answer_that_is_about_to_end(self):
        usage = {"prompt_tokens": 10, "completion_tokens": 4000, "total_tokens": 4010}
        self.answers(stream(chunk("xxx"), chunk(finish="stop") + chunk(usage=usage) + DONE, pause=0.1))
        self.leave_in_the_middle("first/gpt-5-mini")
        row = wait_for(lambda: next((row for row in self.usage(self.pons) if row["model"] == "gpt-5-mini"), None), "it is counted")
        self.assertEqual((row["input_tokens"], row["output_tokens"]), (10, 4000))

    def test_a_client_that_leaves_pays_for_thinking_that_it_did_not_see(self):
        self.answers(stream(chunk("xxx"), end="hang"))
        for model, least, most in (("gpt-5-nano", 150, 20_000), ("gpt-4.1", 1, 50)):
            self.leave_in_the_middle("first/" + model)
            row = wait_for(lambda: next((row for row in self.usage(self.pons) if row["model"] == model), None), "it is counted")
            self.assertGreaterEqual(row["output_tokens"], least, model)
            self.assertLessEqual(row["output_tokens"], most, model)

    def leave_in_the_middle(self, model):
        body = json.dumps({"model": model, "stream": True, "max_tokens": 20_000,
                           "messages": [{"role": "user", "content": "hi"}]}).encode()
        with socket.create_connection(self.pons.address) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (self.key.encode(), len(body), body))
            wait_for(lambda: b"xxx" in client.recv(65536), "the stream begins")

    def test_a_gateway_that_is_killed_settles_what_was_under_way_once(self):
        self.answers(stream(chunk("x" * 300), end="hang"))
        body = json.dumps({"model": "test", "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
        with socket.create_connection(self.pons.address) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (self.key.encode(), len(body), body))
            wait_for(lambda: b"xxx" in client.recv(65536), "the stream begins")
            for _ in range(2):
                killed = self.pons.role_pids()["gateway"]
                os.kill(killed, signal.SIGKILL)
                wait_for(lambda: self.pons.role_pids()["gateway"] not in (killed, None, 0), "the gateway is back")
                wait_for(lambda: self.pons.status()["ready"], "all is ready")
        row = wait_for(lambda: next((row for row in self.usage(self.pons) if row["model"] == "gpt-5"), None), "it is counted")
        self.assertEqual(row["requests"], 1)
        self.assertGreater(row["cost_nano_usd"], 0)
        self.answers(respond(200, WHOLE_ANSWER))
        self.assertEqual(self.call(self.pons, self.key)[0], 200, "no reservation is left over")
