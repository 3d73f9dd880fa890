"""Figures and traces: real scrapes of every role, and a collector that hears one trace for each turn."""

import http.client
import json
import os
import re
import signal
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from model_world import FakeProvider, ModelTestCase, WHOLE_ANSWER, free_port, respond
from pons_fixture import PATIENCE_SECONDS, UnixConnection, wait_for
from warden_client import end_orderly

LABEL = re.compile(r'([a-z_][a-z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
SAMPLE = re.compile(r"([a-z_][a-z0-9_]*)(?:\{(.*)\})? (-?[0-9.e+-]+)")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}
PROVIDER_KEY = "sk-provider-0123456789abcdef"
COLLECTOR_KEY = "collector-key-0123456789abcdef"


def parse(text):
    """{(name, labels): value}. As strict as the format: one place for each metric, no sample twice."""
    assert text.endswith("\n"), text[-100:]
    samples, seen, name, kind = {}, set(), None, None
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in seen, f"{name} begins twice"
            seen.add(name)
            word, same, kind = next(lines).split(" ")[1:]
            assert (word, same) == ("TYPE", name), line
            assert kind in SUFFIXES, kind
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        assert match[1].startswith(name) and match[1].removeprefix(name) in SUFFIXES[kind], line
        labels, rest = [], match[2] or ""
        while rest:
            label = LABEL.match(rest)
            assert label, line
            labels.append((label[1], label[2]))
            rest = rest[label.end():]
        assert len(dict(labels)) == len(labels), line
        key = (match[1], frozenset(labels))
        assert key not in samples, f"twice: {line}"
        samples[key] = float(match[3])
    return samples


def total(samples, name, **labels):
    """The sum over all samples of that name that have these labels."""
    wanted = set(labels.items())
    return sum(value for (named, has), value in samples.items() if named == name and wanted <= has)


def values_of(samples, label):
    return {value for (_, has), _ in samples.items() for name, value in has if name == label}


class Collector:
    """Takes OTLP over HTTP as a collector does; `statuses` are its first answers."""

    def __init__(self, case, statuses=()):
        self.requests = []
        self.statuses = list(statuses)
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = collector.statuses.pop(0) if collector.statuses else 200
                collector.requests.append((status, self.path, dict(self.headers.items()), body))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        case.addCleanup(thread.join)
        case.addCleanup(self.server.server_close)
        case.addCleanup(self.server.shutdown)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}/collect"

    def spans(self):
        """All that were taken."""
        return [
            span
            for status, _, _, body in list(self.requests)
            if status == 200
            for resource in json.loads(body)["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]


def attributes(span):
    def value(of):
        (kind, held), = of.items()
        if kind == "arrayValue":
            return [value(entry) for entry in held["values"]]
        return int(held) if kind == "intValue" else held

    return {entry["key"]: value(entry["value"]) for entry in span["attributes"]}


class Metrics(ModelTestCase):
    def scrape_port(self, port, host=None, path="/metrics", method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, headers={"Host": host} if host else {})
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type"), answer.read().decode()
        finally:
            connection.close()

    def scrape(self, pons):
        """Everything, by the command."""
        done = pons.command("metrics")
        self.assertEqual(done.returncode, 0, done.stderr)
        return parse(done.stdout)

    def test_every_role_is_heard_and_figures_follow_what_happens(self):
        provider = FakeProvider(self)
        provider.answers = [respond(200, WHOLE_ANSWER)]
        port = free_port()
        pons = self.start(
            f"providers: {{mine: {{kind: openai-compatible, url: '{provider.url}', key_env: KEY}}}}\n"
            "models: {smart: {try: [mine/claude-sonnet-4-5]}}\n"
            f"metrics: {{listen: '127.0.0.1:{port}'}}\n",
            environment={"KEY": PROVIDER_KEY})
        self.addCleanup(end_orderly, pons)
        key = self.make_key(pons)
        before = self.scrape(pons)
        for _ in range(3):
            status, _, body = self.call(pons, key, model="smart", protocol="chat")
            self.assertEqual(status, 200, body)
        status, _, _ = self.call(pons, key, model="made-up-secret-name", protocol="chat")
        self.assertEqual(status, 404)
        made = pons.command("sandbox", "create", "--id", "work-secret-name")
        self.assertEqual(made.returncode, 0, made.stderr)
        ran = self.run_pons("sandbox", "exec", "--state-dir", pons.state_dir, "work-secret-name", "--", "true")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(pons.command("sandbox", "rm", "work-secret-name").returncode, 0)

        after = self.scrape(pons)
        self.assertEqual(values_of(after, "role"), {"supervisor", "front", "brain", "gateway", "egress", "warden"})

        def grown(name, **labels):
            return total(after, name, **labels) - total(before, name, **labels)

        self.assertEqual(grown("pons_http_requests_total", role="front", listener="public", route="models",
                               status="2xx"), 3)
        self.assertEqual(grown("pons_http_requests_total", role="front", route="models", status="4xx"), 1)
        self.assertEqual(grown("pons_http_requests_total", role="gateway", route="/v1/chat/completions",
                               status="2xx"), 3)
        self.assertGreater(grown("pons_http_bytes_total", role="front", direction="in"), 300)
        mine = {"provider": "mine", "model": "claude-sonnet-4-5"}
        self.assertEqual(grown("pons_model_calls_total", outcome="done", **mine), 3)
        self.assertEqual(grown("pons_model_tokens_total", kind="input", **mine), 30)
        self.assertEqual(grown("pons_model_tokens_total", kind="output", **mine), 15)
        self.assertGreater(grown("pons_model_cost_dollars_total", **mine), 0)
        self.assertEqual(total(after, "pons_model_available", route="smart", **mine), 1)
        self.assertEqual(grown("pons_sandbox_claim_seconds_count", role="warden"), 1)
        self.assertEqual(grown("pons_sandbox_jobs_total"), 1)
        self.assertEqual(grown("pons_sandbox_ends_total", reason="destroyed"), 1)
        self.assertIn(("pons_egress_decisions_total",
                       frozenset({("role", "egress"), ("verdict", "block"), ("code", "")})), after)
        self.assertGreater(total(after, "pons_store_write_seconds_count", role="gateway"), 0)
        for process in ("supervisor", "front", "brain", "gateway", "egress", "warden", "spawner"):
            self.assertEqual(total(after, "pons_process_ready", process=process), 1)
            self.assertGreater(total(after, "pons_process_resident_bytes", process=process), 1 << 20)
            self.assertGreater(total(after, "pons_process_start_time_seconds", process=process), 1.7e9)

        # Over the listener: the same, the supervisor's part as soon as it has told it.
        def heard():
            status, kind, text = self.scrape_port(port)
            self.assertEqual((status, kind), (200, "text/plain; version=0.0.4; charset=utf-8"))
            samples = parse(text)
            is_whole = total(samples, "pons_role_heard") == 6 and total(samples, "pons_process_ready") == 7
            return samples if is_whole else None

        listened = wait_for(heard, "all processes are on the page", step=0.2)
        self.assertEqual(total(listened, "pons_model_calls_total", outcome="done", **mine), 3)

        for text in (pons.command("metrics").stdout, self.scrape_port(port)[2]):
            for secret in (PROVIDER_KEY, key, pons.token, "secret-name", provider.url, self.directory):
                self.assertNotIn(secret, text)

        # Nobody else's name leads there, and there is nothing else.
        self.assertEqual(self.scrape_port(port, host="evil.example")[0], 403)
        self.assertEqual(self.scrape_port(port, host=f"localhost:{port}")[0], 200)
        self.assertEqual(self.scrape_port(port, path="/x/status")[0], 404)
        self.assertEqual(self.scrape_port(port, method="POST")[0], 405)

    def test_a_role_that_is_gone_is_said_to_be(self):
        port = free_port()
        pons = self.start(f"metrics: {{listen: '127.0.0.1:{port}'}}\n")
        self.addCleanup(end_orderly, pons)
        gateway = pons.role_pids()["gateway"]
        os.kill(gateway, signal.SIGSTOP)
        self.addCleanup(lambda: os.path.exists(f"/proc/{gateway}") and os.kill(gateway, signal.SIGCONT))

        def unheard():
            samples = parse(self.scrape_port(port)[2])
            return samples if total(samples, "pons_role_heard", role="gateway") == 0 else None

        samples = wait_for(unheard, "the stopped role is missing", step=0.5)
        self.assertEqual(total(samples, "pons_role_heard", role="brain"), 1)
        self.assertEqual({role for role in values_of(samples, "role")} & {"brain", "front", "warden"},
                         {"brain", "front", "warden"})
        os.kill(gateway, signal.SIGCONT)

    def test_only_the_operator_and_the_front_may_ask_a_role(self):
        pons = self.start()
        self.addCleanup(end_orderly, pons)
        connection = UnixConnection(f"{pons.state_dir}/run/brain.sock")
        connection.request("GET", "/metrics")
        self.assertIn("pons_sessions_loaded", connection.getresponse().read().decode())
        connection.close()
        status, _ = pons.request("/metrics")
        self.assertIn(status, (401, 404))

    def test_a_listener_that_others_could_reach_is_refused(self):
        for address in ("0.0.0.0:9760", "10.0.0.1:9760", "'[::]:9760'"):
            done = self.run_pons("up", "--config", self.write_file("bad.yaml", f"metrics: {{listen: {address}}}\n"),
                                 "--state-dir", f"{self.directory}/bad")
            self.assertEqual(done.returncode, 1)
            self.assertIn("loopback", done.stderr)


class Traces(ModelTestCase):
    def run_task(self, pons, *words):
        done = pons.command("run", *words, "look around")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def turns(self, collector, count):
        """Spans by trace, once there are so many with a root."""
        def complete():
            traces = {}
            for span in collector.spans():
                traces.setdefault(span["traceId"], []).append(span)
            whole = [spans for spans in traces.values() if any("parentSpanId" not in span for span in spans)]
            return traces if len(whole) >= count else None

        return wait_for(complete, f"{count} traces arrive", step=0.05)

    def test_each_turn_of_an_agent_is_one_trace(self):
        collector = Collector(self, statuses=[503])  # and is asked again
        pons = self.start(f"telemetry: {{otlp_endpoint: '{collector.url}', otlp_headers_env: OTLP}}\n",
                          environment={"OTLP": f"Authorization=Bearer%20{COLLECTOR_KEY},x-tenant=me"})
        self.addCleanup(end_orderly, pons)
        self.run_task(pons)
        (trace, spans), = self.turns(collector, 1).items()
        self.assertRegex(trace, "^[0-9a-f]{32}$")
        self.assertEqual(len({span["spanId"] for span in spans}), len(spans))
        root, = [span for span in spans if "parentSpanId" not in span]
        for span in spans:
            self.assertRegex(span["spanId"], "^[0-9a-f]{16}$")
            self.assertLessEqual(int(root["startTimeUnixNano"]), int(span["startTimeUnixNano"]))
            self.assertLessEqual(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
            self.assertLessEqual(int(span["endTimeUnixNano"]), int(root["endTimeUnixNano"]))
            if span is not root:
                self.assertEqual(span["parentSpanId"], root["spanId"])
        self.assertEqual(root["name"], "invoke_agent default")
        self.assertEqual(root["kind"], 1)
        of_turn = attributes(root)
        self.assertEqual(of_turn["gen_ai.operation.name"], "invoke_agent")
        self.assertEqual(of_turn["gen_ai.agent.name"], "default")
        self.assertEqual(of_turn["pons.turn.ended"], "end_turn")
        session = of_turn["gen_ai.conversation.id"]

        # The script of the demo: a sandbox, a command in it, an answer.
        rest = sorted((span for span in spans if span is not root),
                      key=lambda span: (int(span["startTimeUnixNano"]), span["name"]))
        self.assertEqual(sorted(span["name"] for span in rest),
                         ["chat demo", "chat demo", "chat demo", "execute_tool sandbox_execute",
                          "execute_tool sandbox_provision"])
        chats = [attributes(span) for span in rest if span["kind"] == 3]
        self.assertEqual(len(chats), 3)
        for chat in chats:
            self.assertEqual(chat["gen_ai.operation.name"], "chat")
            self.assertEqual(chat["gen_ai.provider.name"], "demo")
            self.assertEqual(chat["gen_ai.request.model"], "demo")
            self.assertEqual(chat["gen_ai.response.model"], "demo")
            self.assertGreater(chat["gen_ai.usage.output_tokens"], 0)
            self.assertGreaterEqual(chat["gen_ai.response.time_to_first_chunk"], 0)
        self.assertEqual(sorted(chat["gen_ai.response.finish_reasons"][0] for chat in chats),
                         ["end_turn", "tool_use", "tool_use"])
        self.assertEqual(of_turn["gen_ai.usage.output_tokens"],
                         sum(chat["gen_ai.usage.output_tokens"] for chat in chats))
        for span in rest:
            if span["kind"] == 3:
                continue
            tool = attributes(span)
            self.assertEqual(tool["gen_ai.operation.name"], "execute_tool")
            self.assertTrue(tool["gen_ai.tool.call.id"])
            self.assertEqual(span["status"], {})

        # What was said is in none of it.
        everything = b"".join(body for _, _, _, body in collector.requests).decode()
        for words in ("look around", "Hello from", "uname", "I took a sandbox"):
            self.assertNotIn(words, everything)
        for _, path, fields, _ in collector.requests:
            self.assertEqual(path, "/collect/v1/traces")
            self.assertEqual(fields["Content-Type"], "application/json")
            self.assertEqual(fields["Authorization"], f"Bearer {COLLECTOR_KEY}")
            self.assertEqual(fields["x-tenant"], "me")
        self.assertEqual([status for status, *_ in collector.requests], [503, 200])

        # The next turn of the same session is a trace of its own.
        self.run_task(pons, "--session", session)
        traces = self.turns(collector, 2)
        self.assertEqual(len(traces), 2)
        figures = parse(pons.command("metrics").stdout)
        self.assertEqual(total(figures, "pons_session_turns_total", ended="end_turn"), 2)
        self.assertEqual(total(figures, "pons_trace_turns_total", outcome="handed_over"), 2)
        self.assertEqual(total(figures, "pons_trace_spans_total", outcome="sent"), len(collector.spans()))
        self.assertEqual(total(figures, "pons_trace_request_failures_total"), 1)
        self.assertNotIn(COLLECTOR_KEY, pons.log)
        self.assertNotIn(COLLECTOR_KEY, pons.command("metrics").stdout)

    def test_each_call_of_a_client_is_one_span_in_the_clients_own_trace(self):
        collector, port = Collector(self), free_port()
        pons = self.start(f"""
providers:
  stage:
    kind: scripted
    answers:
      - {{text: "words that nobody may see", usage: {{input: 100, cache_read: 20, output: 42}}}}
models:
  smart: {{try: [stage/claude-sonnet-4-5]}}
gateway: {{listen: '127.0.0.1:{port}'}}
telemetry: {{otlp_endpoint: '{collector.url}'}}
""")
        self.addCleanup(end_orderly, pons)
        key = self.make_key(pons)
        parents = {}
        for number, (protocol, stream) in enumerate(
                ((protocol, stream) for protocol in ("messages", "chat", "responses") for stream in (False, True)), 1):
            trace, parent = f"{number:032x}", f"{number:016x}"
            parents[trace] = parent, stream
            status, _, body = self.call(pons, key, model="smart", protocol=protocol, stream=stream,
                                        fields={"traceparent": f"00-{trace}-{parent}-01"})
            self.assertEqual(status, 200, body)
        spans = wait_for(lambda: len(collector.spans()) >= len(parents) and collector.spans(), "all spans arrive", step=0.05)
        self.assertEqual({span["traceId"] for span in spans}, set(parents))
        for span in spans:
            parent, stream = parents[span["traceId"]]
            self.assertEqual((span["parentSpanId"], span["name"], span["kind"], span["status"]), (parent, "chat smart", 3, {}))
            told = attributes(span)
            self.assertEqual({name: told[name] for name in (
                "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model",
                "gen_ai.usage.input_tokens", "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.output_tokens")}, {
                "gen_ai.operation.name": "chat", "gen_ai.provider.name": "stage", "gen_ai.request.model": "smart",
                "gen_ai.response.model": "claude-sonnet-4-5", "gen_ai.usage.input_tokens": 120,
                "gen_ai.usage.cache_read.input_tokens": 20, "gen_ai.usage.output_tokens": 42})
            self.assertGreater(told["pons.usage.cost_nano_usd"], 0)
            self.assertEqual("gen_ai.response.time_to_first_chunk" in told, stream)

        # Without a parent, or with something that is none, a trace of its own; also over the listener for trusted networks.
        class Trusted:
            address = ("127.0.0.1", port)

        self.assertEqual(self.call(Trusted, key, model="smart", fields={"traceparent": "00-what-is-this-01"})[0], 200)
        self.assertEqual(self.call(pons, key, model="made-up-secret-name")[0], 404)
        spans = wait_for(lambda: len(collector.spans()) >= len(parents) + 2 and collector.spans(), "two more", step=0.05)
        own = [span for span in spans if span["traceId"] not in parents]
        self.assertEqual([("parentSpanId" in span, span["name"]) for span in own], [(False, "chat smart"), (False, "chat")])
        self.assertEqual((own[1]["status"]["code"], attributes(own[1])["error.type"]), (2, "not_found"))
        everything = b"".join(body for _, _, _, body in collector.requests).decode()
        for words in ("words that nobody may see", "made-up-secret-name", key):
            self.assertNotIn(words, everything)
        figures = parse(pons.command("metrics").stdout)
        self.assertEqual(total(figures, "pons_trace_spans_total", outcome="sent"), len(spans))

    def test_a_collector_that_is_away_is_in_nobodys_way(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        pons = self.start(f"telemetry: {{otlp_endpoint: 'http://127.0.0.1:{port}'}}\n")
        self.addCleanup(end_orderly, pons)
        self.run_task(pons)

        def noticed():
            figures = parse(pons.command("metrics").stdout)
            return total(figures, "pons_trace_request_failures_total") > 0

        wait_for(noticed, "the failure is counted", step=0.1)
        self.run_task(pons)

    def test_bad_settings_are_refused_without_showing_them(self):
        config = self.write_file("bad.yaml", "telemetry: {otlp_endpoint: 'https://x.example', otlp_headers_env: OTLP}\n")
        for value in ("no-equals-" + COLLECTOR_KEY, f"Host={COLLECTOR_KEY}", f"x=%0a{COLLECTOR_KEY}"):
            done = self.run_pons("up", "--config", config, "--state-dir", f"{self.directory}/bad",
                                 environment={"OTLP": value})
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertNotIn(COLLECTOR_KEY, done.stderr + done.stdout)
        config = self.write_file("worse.yaml", "telemetry: {otlp_endpoint: 'ftp://x.example'}\n")
        self.assertEqual(self.run_pons("up", "--config", config).returncode, 1)
