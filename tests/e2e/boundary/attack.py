"""Runs in the sandbox: does on the network what each line of its input asks for, and says what came back."""

import base64
import json
import os
import socket
import ssl
import struct
import sys
import time

PROXIES = {"": ("127.0.0.1", 3128), "four": ("127.0.0.1", 3128), "six": ("::1", 3128)}
FAMILIES = {"four": socket.AF_INET, "six": socket.AF_INET6}


def read_all(stream, seconds, *until):
    """Until the other side closes, or says nothing for a while, or has said what is waited for."""
    received = b""
    stream.settimeout(seconds)
    try:
        while piece := stream.recv(65536):
            received += piece
            if any(each in received for each in until):
                return received, "whole"
        return received, "closed"
    except (TimeoutError, socket.timeout):
        return received, "silent"
    except (ConnectionError, ssl.SSLError, OSError) as error:
        return received, type(error).__name__


def dial(address, kind):
    """Without a kind, as programs do: the other one when the first fails."""
    if not kind:
        return socket.create_connection(address, timeout=20)
    stream = socket.socket(FAMILIES[kind], socket.SOCK_STREAM)
    stream.settimeout(20)
    stream.connect(socket.getaddrinfo(*address, FAMILIES[kind], socket.SOCK_STREAM)[0][4])
    return stream


def open_stream(ask):
    host, port = ask["host"], ask["port"]
    way, _, kind = ask["way"].partition("-")
    if way == "direct":
        return dial((ask.get("dial", host), port), kind), b""
    stream = dial(PROXIES[kind], kind)
    if way == "connect":
        target = ask.get("connect", f"{host}:{port}")
        stream.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{ask.get('connect_fields', '')}\r\n".encode("latin-1"))
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = stream.recv(1)
            if not piece:
                raise ConnectionError("the proxy closed", answer)
            answer += piece
        if b" 200 " not in answer.split(b"\r\n")[0]:
            rest, _ = read_all(stream, 5)
            return None, answer + rest
    return stream, b""


def start_tls(stream, ask):
    context = ssl.create_default_context()
    if not ask.get("verify", True):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if ask.get("protocols"):
        context.set_alpn_protocols(ask["protocols"])
    name = ask.get("server_name", ask["host"])
    if not name:
        context.check_hostname = False
    return context.wrap_socket(stream, server_hostname=name or None)


def whole_answer(received):
    """True when nothing more is to come, so that nobody waits for a connection that stays open."""
    while received.startswith(b"HTTP/1.1 100 "):
        received = received.partition(b"\r\n\r\n")[2]
    head, mark, body = received.partition(b"\r\n\r\n")
    if not mark:
        return False
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.split(b":")[1])
        if line.startswith(b"transfer-encoding:"):
            return body.endswith(b"0\r\n\r\n")
    return head.split(b" ")[1:2] in ([b"204"], [b"304"])


def exchange(ask):
    stream, received = open_stream(ask)
    if stream is None:
        return received, "refused"
    with stream:
        if ask.get("tls"):
            stream = start_tls(stream, ask)
        payload = ask["payload"].encode("latin-1")
        step = ask.get("step", len(payload)) or 1
        try:
            for i in range(0, len(payload), step):
                stream.sendall(payload[i : i + step])
        except (ConnectionError, ssl.SSLError):
            pass
        while ask.get("await_head") and b"\r\n\r\n" not in received:
            piece = stream.recv(65536)
            if not piece:
                return received, "closed"
            received += piece
        switched = not ask.get("await_head") or received.startswith(b"HTTP/1.1 101 ")
        try:
            for more in ask.get("later", ()) if switched else ():
                time.sleep(ask.get("later_pause", 0.05))
                stream.sendall(more.encode("latin-1"))
        except (ConnectionError, ssl.SSLError):
            pass
        seconds = ask.get("seconds", 5)
        if ask.get("until_closed") and switched:
            rest, end = read_all(stream, seconds, *[each.encode("latin-1") for each in ask.get("until", ())])
            return received + rest, end
        stream.settimeout(seconds)
        try:
            while not whole_answer(received):
                piece = stream.recv(65536)
                if not piece:
                    return received, "closed"
                received += piece
            return received, "whole"
        except (TimeoutError, socket.timeout):
            return received, "silent"
        except (ConnectionError, ssl.SSLError, OSError) as error:
            return received, type(error).__name__


def datagram(ask):
    """A UDP message and what answers it."""
    client = socket.socket(socket.AF_INET6 if ":" in ask["host"] else socket.AF_INET, socket.SOCK_DGRAM)
    client.settimeout(ask.get("seconds", 0.5))
    try:
        client.sendto(ask["payload"].encode("latin-1"), (ask["host"], ask["port"]))
        return client.recv(4096), "answered"
    except OSError as error:
        return b"", type(error).__name__


def with_encrypted_part(hello):
    """The greeting with an encrypted_client_hello of the outer kind (RFC 9849), as a client with a host's keys sends it."""
    inner = os.urandom(32), os.urandom(200)
    part = struct.pack("!BHHB", 0, 1, 1, 7) + b"".join(struct.pack("!H", len(each)) + each for each in inner)
    part = struct.pack("!HH", 0xFE0D, len(part)) + part
    at = 5 + 4 + 2 + 32  # behind both heads, the version and the random
    at += 1 + hello[at]  # session
    at += 2 + int.from_bytes(hello[at : at + 2], "big")  # ciphers
    at += 1 + hello[at]  # compressions
    size = int.from_bytes(hello[at : at + 2], "big") + len(part)
    body = hello[9:at] + struct.pack("!H", size) + hello[at + 2 :] + part
    return hello[:3] + struct.pack("!H", len(body) + 4) + b"\x01" + struct.pack("!I", len(body))[1:] + body


def greeting(ask):
    """Sends a TLS greeting and tells what answers it. TLS 1.2, so that the certificate can be read."""
    context = ssl.create_default_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname=ask.get("server_name", ask["host"])).do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello = outgoing.read()
    stream, received = open_stream(ask)
    if stream is None:
        return received, "refused"
    with stream:
        if written := ask.get("written_name"):  # in place of one that is as long, which no library writes
            hello = hello.replace(ask["server_name"].encode(), written.encode())
        stream.sendall(with_encrypted_part(hello) if ask.get("encrypted") else hello)
        return read_all(stream, ask.get("seconds", 5), b"\x16\x03\x03\x00\x04\x0e\x00\x00\x00")  # the server is done


def lookup(ask):
    kind = ask.get("kind", 1)
    name = b"".join(bytes([len(label)]) + label.encode("latin-1") for label in ask["host"].split(".")) + b"\0"
    query = struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + name + struct.pack("!HH", kind, 1)
    return datagram({"host": ask.get("server", "127.0.0.1"), "port": 53, "payload": query.decode("latin-1"), "seconds": 5})


def http2(ask):
    import attack_http2  # not every sandbox has what it needs

    stream, received = open_stream(ask)
    if stream is None:
        return received, "refused"
    with stream:
        return attack_http2.talk(start_tls(stream, ask) if ask.get("tls") else stream, ask)


WORKS = {"exchange": exchange, "datagram": datagram, "lookup": lookup, "http2": http2, "greeting": greeting}


def main():
    print(json.dumps({"environment": dict(os.environ)}), flush=True)
    for line in sys.stdin:
        ask = json.loads(line)
        try:
            received, end, *more = WORKS[ask.get("work", "exchange")](ask)
        except OSError as error:
            received, end, more = b"", f"{type(error).__name__}: {error}", []
        print(json.dumps({"received": base64.b64encode(received).decode(), "end": end, "more": more}), flush=True)


if __name__ == "__main__":
    main()
