"""Runs in the sandbox: sends each byte sequence of a file on a connection of its own, and writes down what came back.

Usage: ask_many.py HOST PORT ASKED ANSWERED; both files are JSON lists of texts in base64.
"""

import base64
import concurrent.futures
import json
import socket
import sys

AT_ONCE = 32
QUIET_SECONDS = 1  # then the other side waits for more, and is told that there is none
PATIENCE_SECONDS = 60


def ask(address, data):
    answer = b""
    with socket.create_connection(address, timeout=PATIENCE_SECONDS) as stream:
        try:
            stream.sendall(data)
            stream.settimeout(QUIET_SECONDS)
            while True:
                try:
                    piece = stream.recv(65536)
                except TimeoutError:
                    stream.shutdown(socket.SHUT_WR)
                    stream.settimeout(PATIENCE_SECONDS)
                    continue
                if not piece:
                    return answer
                answer += piece
        except ConnectionError:
            return answer  # one that refuses may reset


def main(host, port, asked, answered):
    with open(asked, encoding="ascii") as file:
        cases = [base64.b64decode(text) for text in json.load(file)]
    address = (socket.gethostbyname(host), int(port))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(lambda case: ask(address, case), cases)
        texts = [base64.b64encode(answer).decode() for answer in answers]
    with open(answered, "w", encoding="ascii") as file:
        json.dump(texts, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
