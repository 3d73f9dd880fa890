"""Sessions that write one line after the other, and a client that never gives up."""

import threading
import time

from pons_fixture import PATIENCE_SECONDS
from sandbox_world import LOST
from session_world import Refused, calls, config, execute, one, provision, text

from .checker import Record

DEADLINE_SECONDS = 20 * PATIENCE_SECONDS


def line(turn, number):
    return f"{turn}.{number}"


def script(turns, calls_per_turn):
    """Each call writes its line at once, and takes a while to end: most blows meet one that has happened."""
    answers, said = [], 0
    for turn in range(turns):
        if turn == 0:
            steps = [calls(provision(keep=True))]
        else:
            steps = []
        steps += [calls(execute(f"echo {line(turn, i)} >> lines; sleep 0.05")) for i in range(calls_per_turn)]
        steps.append(text(f"Turn {turn} is over."))
        for step in steps:
            answers.append({"when": {"turn": said}, **step})
            said += 1
    return config(
        answers,
        {"default": {"model": "stage", "calls_per_turn": calls_per_turn + 10}},
        log={"level": "warn"},
        supervisor={"restart_delay_ms": 1, "restart_delay_max_ms": 20},
    )


class Life(threading.Thread):
    """One session from its making until it is archived, whatever it takes."""

    def __init__(self, client, warden, name, turns, calls_per_turn):
        super().__init__()
        self.client = client
        self.warden = warden
        self.turns = turns
        wanted = [line(turn, i) for turn in range(turns) for i in range(calls_per_turn)]
        self.record = Record(session=name, wanted=wanted, ends=turns)
        self.deadline = time.monotonic() + DEADLINE_SECONDS
        self.error = None

    def run(self):
        try:
            self.insist(lambda: self.client.create(id=self.record.session))
            for turn in range(self.turns):
                words = f"turn {turn}, please"
                seq = self.insist(lambda: self.client.say(self.record.session, words, dedupe=words))
                self.record.acknowledged[seq] = words
                self.insist(lambda: self.listen(turn + 1))
            self.record.log = self.insist(lambda: self.client.events(self.record.session))
            self.record.lines = self.insist(self.read_lines)
            self.insist(lambda: self.client.ask("POST", f"/x/sessions/{self.record.session}/archive"))
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def insist(self, ask):
        """Asks until there is an answer. That there was none says nothing about what has happened."""
        while True:
            try:
                return ask()
            except LOST as error:
                last = error
            except Refused as error:
                if error.status < 429:
                    raise
                last = error
            if time.monotonic() > self.deadline:
                raise AssertionError(f"{self.record.session} was lost: {last}")
            time.sleep(0.05)

    def listen(self, ends):
        """Follows the session from where it was left, until so many turns have ended."""
        told = self.record.told
        while sum(event["type"] == "turn.ended" for event in told) < ends:
            with self.client.stream(self.record.session, last_event_id=told[-1]["seq"] if told else 0) as stream:
                for _, content in stream:
                    if "seq" in content:
                        told.append(content)
                    if content.get("type") == "turn.ended":
                        break
                else:
                    raise OSError("the stream ended")

    def read_lines(self):
        """As they stand in the sandbox, which the session has kept."""
        written, ended = self.warden.run(one(self.record.log, "sandbox.bound")["sandbox"], "cat lines")
        if ended is None:
            raise OSError("the stream was cut")
        return written.split()


def live(client, warden, names, turns, calls_per_turn, at_once):
    """Their records; not more of them at work at the same time than `at_once`."""
    lives = [Life(client, warden, name, turns, calls_per_turn) for name in names]
    for begin in range(0, len(lives), at_once):
        some = lives[begin:begin + at_once]
        for life in some:
            life.start()
        for life in some:
            life.join()
            if life.error is not None:
                raise life.error
    return [life.record for life in lives]
