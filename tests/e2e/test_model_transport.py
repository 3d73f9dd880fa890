"""The way to a provider: TLS with an authority of its own, both versions of HTTP, a proxy, and keys from files."""

import json
import os
import socket
import ssl
import threading

import h2.config
import h2.connection
import h2.events

from boundary import certificates
from model_world import SECRET, WHOLE_STREAM, FakeProvider, ModelTestCase, stream
from warden_client import end_orderly

CONFIG = """
gateway: {{unknown_price: dearest}}
providers:
  newer: {{kind: openai-compatible, url: 'https://localhost:{newer}/v1', authority_file: '{directory}/authority.pem',
    key_file: '{directory}/key'}}
  older: {{kind: openai-compatible, url: 'https://localhost:{older}/v1', authority_file: '{directory}/authority.pem'}}
  proxied: {{kind: openai-compatible, url: 'https://localhost:{newer}/v1', authority_file: '{directory}/authority.pem',
    proxy: 'http://127.0.0.1:{proxy}'}}
  refused: {{kind: openai-compatible, url: 'https://localhost:{newer}/v1', authority_file: '{directory}/authority.pem',
    proxy: 'http://127.0.0.1:{closed_proxy}'}}
  unvouched: {{kind: openai-compatible, url: 'https://localhost:{newer}/v1'}}
  misnamed: {{kind: openai-compatible, url: 'https://127.0.0.1:{newer}/v1', authority_file: '{directory}/authority.pem'}}
"""


class TlsProvider(FakeProvider):
    """Over TLS, and over HTTP/2 if it offers that."""

    def __init__(self, case, directory, *protocols):
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(f"{directory}/localhost.pem", f"{directory}/localhost.key")
        self.tls.set_alpn_protocols(protocols)
        self.spoken = []  # by connection
        super().__init__(case)
        self.answers = [stream(*WHOLE_STREAM)]

    def serve(self, connection):
        try:
            connection = self.tls.wrap_socket(connection, server_side=True)
        except OSError:
            connection.close()
            return
        self.spoken.append(connection.selected_alpn_protocol())
        if self.spoken[-1] != "h2":
            return super().serve(connection)
        try:
            with connection:
                self.serve_http2(connection)
        except OSError:
            pass

    def serve_http2(self, connection):
        talk = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="latin-1"))
        talk.initiate_connection()
        connection.sendall(talk.data_to_send())
        requests = {}
        while data := connection.recv(65536):
            for event in talk.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    requests[event.stream_id] = {"fields": dict(event.headers), "body": b""}
                elif isinstance(event, h2.events.DataReceived):
                    requests[event.stream_id]["body"] += event.data
                    talk.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    self.requests.append(requests.pop(event.stream_id))
                    talk.send_headers(event.stream_id, [(":status", "200"), ("content-type", "text/event-stream")])
                    talk.send_data(event.stream_id, "".join(WHOLE_STREAM).encode(), end_stream=True)
            connection.sendall(talk.data_to_send())


class Proxy:
    """Takes CONNECT, and remembers where to."""

    def __init__(self, case, is_open=True):
        self.is_open = is_open
        self.asked = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        case.addCleanup(self.listener.close)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = client.recv(1)
            if not piece:
                return
            head += piece
        self.asked.append(head.split(b"\r\n", 1)[0].decode())
        if not self.is_open:
            client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            client.close()
            return
        far = socket.create_connection(("127.0.0.1", int(self.asked[-1].split()[1].rpartition(":")[2])))
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with client, far:
            back = threading.Thread(target=self.pump, args=(far, client), daemon=True)
            back.start()
            self.pump(client, far)
            back.join()

    @staticmethod
    def pump(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Transport(ModelTestCase):
    def setUp(self):
        super().setUp()
        directory = f"{self.directory}/certificates"
        os.mkdir(directory)
        certificates.make_authority(directory)
        certificates.make_leaf(directory, "localhost", ["localhost"])
        with open(f"{directory}/key", "w", encoding="ascii") as file:
            file.write(SECRET + "\n")
        self.newer = TlsProvider(self, directory, "h2", "http/1.1")
        self.older = TlsProvider(self, directory, "http/1.1")
        self.proxy = Proxy(self)
        self.closed_proxy = Proxy(self, is_open=False)
        self.pons = self.start(
            CONFIG.format(directory=directory, newer=self.newer.port, older=self.older.port, proxy=self.proxy.port,
                          closed_proxy=self.closed_proxy.port))
        self.addCleanup(end_orderly, self.pons)
        self.key = self.make_key(self.pons)

    def ask(self, provider, protocol="chat"):
        return self.call(self.pons, self.key, model=f"{provider}/gpt-5", protocol=protocol, stream=True)

    def test_a_provider_whose_authority_is_known_is_asked_over_what_it_speaks(self):
        for provider, name, spoken in ((self.newer, "newer", "h2"), (self.older, "older", "http/1.1")):
            for protocol, end in (("chat", "[DONE]"), ("messages", "message_stop")):
                status, _, text = self.ask(name, protocol)
                self.assertEqual(status, 200, text)
                self.assertIn(end, text)
            self.assertEqual(set(provider.spoken), {spoken})
            self.assertEqual(len(provider.requests), 2)
        self.assertEqual(len(self.newer.spoken), 1, "calls share the connection")
        self.assertEqual(json.loads(self.newer.requests[0]["body"])["model"], "gpt-5")

    def test_a_key_is_read_from_its_file(self):
        self.assertEqual(self.ask("newer")[0], 200)
        self.assertEqual(self.newer.requests[0]["fields"]["authorization"], f"Bearer {SECRET}")
        self.assertNotIn(SECRET, self.pons.log)

    def test_a_provider_for_whom_nobody_vouches_hears_nothing(self):
        for name in ("unvouched", "misnamed"):
            status, _, text = self.ask(name)
            self.assertEqual(status, 502, text)
        self.assertEqual(self.newer.requests, [])

    def test_the_way_leads_through_a_proxy(self):
        status, _, text = self.ask("proxied")
        self.assertEqual(status, 200, text)
        self.assertIn("[DONE]", text)
        self.assertEqual(self.proxy.asked, [f"CONNECT localhost:{self.newer.port} HTTP/1.1"])
        self.assertEqual(self.newer.spoken, ["h2"])

    def test_a_proxy_that_refuses_is_no_answer(self):
        self.assertEqual(self.ask("refused")[0], 502)
        self.assertTrue(self.closed_proxy.asked)
        self.assertEqual(self.newer.requests, [])
