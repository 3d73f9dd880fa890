"""Sessions that two installations share, and a client that asks whichever of them comes first."""

import collections
import json
import random
import re
import threading

from sandbox_world import LOST
from session_world import calls, config, execute, of, provision, text

from .checker import find_gaps, find_lost
from .lives import Life, line


def script(turns, calls_per_turn):
    """Each turn takes a sandbox of its own, which is kept, so that what it has written can be read in the end."""
    answers = []
    for turn in range(turns):
        steps = [calls(provision(keep=True))]
        steps += [calls(execute(f"echo {line(turn, i)} >> lines; sleep 0.05")) for i in range(calls_per_turn)]
        steps.append(text(f"Turn {turn} is over."))
        answers += [{"when": {"turn": len(answers) + i}, **step} for i, step in enumerate(steps)]
    return config(
        answers,
        {"default": {"model": "stage", "calls_per_turn": calls_per_turn + 10}},
        log={"level": "warn"},
        supervisor={"restart_delay_ms": 1, "restart_delay_max_ms": 20},
    )


class Scribe:
    """What commands have written, by session and sandbox, as long as the sandboxes are there to be asked."""

    def __init__(self, wardens):
        self.wardens = wardens
        self.lock = threading.Lock()
        self.written = collections.defaultdict(dict)

    def collect(self, warden, session=None):
        """Of one machine. Run before a brain comes back that will end what it has lost."""
        for each in json.loads(warden.ask("GET", "/sandboxes"))["sandboxes"]:
            owner = each.get("labels", {}).get("pons.session")
            if owner is None or session not in (None, owner):
                continue
            try:
                text_of, ended = warden.run(each["id"], "cat lines 2>/dev/null || true")
            except LOST:
                continue  # it ended meanwhile
            if ended is not None:
                with self.lock:
                    self.written[owner][each["id"]] = text_of.split()

    def collect_all(self, session):
        for warden in self.wardens:
            self.collect(warden, session)


class Wandering(Life):
    """Each request goes to another installation, as behind a balancer that knows nothing of sessions."""

    def __init__(self, clients, scribe, name, turns, calls_per_turn):
        self.clients = clients
        self.scribe = scribe
        super().__init__(None, None, name, turns, calls_per_turn)

    @property
    def client(self):
        return random.choice(self.clients)

    @client.setter
    def client(self, _):
        pass

    def read_lines(self):
        self.scribe.collect_all(self.record.session)
        return []


def live_shared(clients, scribe, names, turns, calls_per_turn):
    lives = [Wandering(clients, scribe, name, turns, calls_per_turn) for name in names]
    for life in lives:
        life.start()
    for life in lives:
        life.join()
        if life.error is not None:
            raise life.error
    return [life.record for life in lives]


def find_unfinished(record):
    """Every turn came to its end, and so did every call, once: well, or with the word that it may have run."""
    ends = [event["reason"] for event in of(record.log, "turn.ended")]
    if ends != ["end_turn"] * record.ends:
        yield f"unfinished: the turns ended with {ends}"
    ended = collections.Counter(event["call"] for event in of(record.log, "tool.ended"))
    for call in of(record.log, "tool.called"):
        if ended[call["seq"]] != 1:
            yield f"call {call['seq']} has {ended[call['seq']]} ends"


def find_doubled(record, written):
    """No command has run twice, on whichever machine; one that is said to be done has run."""
    lines = collections.Counter(each for some in written.values() for each in some)
    for each, count in lines.items():
        if count > 1:
            yield f"doubled: {each} was written {count} times"
    ended = {event["call"]: event for event in of(record.log, "tool.ended")}
    bound = None
    for event in record.log:
        if event["type"] == "sandbox.bound":
            bound = event["sandbox"]
        if event["type"] != "tool.called" or event["name"] != "sandbox_execute":
            continue
        wanted = re.match(r"echo (\S+) ", event["input"]["command"]).group(1)
        outcome = ended.get(event["seq"], {}).get("outcome")
        if outcome == "done" and bound in written and lines[wanted] == 0:
            yield f"missing: {wanted} is done and was not written"
        if outcome == "refused" and lines[wanted] > 0:
            yield f"doubled: {wanted} was refused and written"


def check_shared(record, written):
    return [f"{record.session}: {finding}"
            for found in (find_lost(record), find_gaps(record), find_unfinished(record), find_doubled(record, written))
            for finding in found]


def moves_of(record):
    """From one machine to the other."""
    nodes = [event["node"] for event in record.log if event["type"] in ("session.created", "session.resumed")]
    return sum(before != after for before, after in zip(nodes, nodes[1:]))
