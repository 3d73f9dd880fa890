"""What must be true of a session whatever happened to the processes that had it. Pure: no Pons is needed to ask."""

import collections
import dataclasses


@dataclasses.dataclass
class Record:
    """Of one session: what its client was told while it went on, and what is found in the end."""

    session: str
    acknowledged: dict = dataclasses.field(default_factory=dict)  # number of an event: the words that got it
    told: list = dataclasses.field(default_factory=list)  # events as they were streamed
    log: list = dataclasses.field(default_factory=list)  # events as they are listed
    lines: list = dataclasses.field(default_factory=list)  # that its commands wrote
    wanted: list = dataclasses.field(default_factory=list)  # lines, in their order
    ends: int = 0  # of turns, that must be in the log


def words_of(event):
    return "".join(block.get("text", "") for block in event.get("content", []))


def find_lost(record):
    """What the client has heard of is in the log, as it was."""
    log = {event["seq"]: event for event in record.log}
    for event in record.told:
        if log.get(event["seq"]) != event:
            yield f"lost: {event['type']} {event['seq']} was told and is {log.get(event['seq'])} now"
    for seq, words in record.acknowledged.items():
        if seq not in log or words_of(log[seq]) != words:
            yield f"lost: {words!r} was acknowledged as {seq}, which is {log.get(seq)} now"


def find_gaps(record):
    for name, events in (("log", record.log), ("stream", record.told)):
        for place, event in enumerate(events, 1):
            if event["seq"] != place:
                yield f"gap: the {name} has {event['seq']} in place of {place}"
                break


def find_unfinished(record):
    ended = sum(event["type"] == "turn.ended" for event in record.log)
    if ended != record.ends:
        yield f"unfinished: {ended} of {record.ends} turns have ended"
    for event in record.log:
        if event["type"] == "turn.ended" and event["reason"] != "end_turn":
            yield f"unfinished: a turn ended with {event['reason']} {event.get('message', '')}"
    open_calls = {event["seq"] for event in record.log if event["type"] == "tool.called"}
    for event in record.log:
        if event["type"] != "tool.ended":
            continue
        if event["call"] not in open_calls:
            yield f"doubled: call {event['call']} has ended twice"
        open_calls.discard(event["call"])
        if event["outcome"] != "done":
            yield f"unfinished: call {event['call']} was {event['outcome']}: {event.get('text', '')}"
    for seq in sorted(open_calls):
        yield f"unfinished: call {seq} has no end"


def find_doubled(record):
    """Each command has run once, one after the other."""
    counted = collections.Counter(record.lines)
    for line, count in counted.items():
        if count > 1:
            yield f"doubled: {line} was written {count} times"
    for line in record.wanted:
        if line not in counted:
            yield f"missing: {line} was not written"
    for line in counted.keys() - set(record.wanted):
        yield f"strange: {line!r} was written"
    if sorted(record.lines) == sorted(record.wanted) and record.lines != record.wanted:
        yield "order: the lines are not in the order of the calls"


def check(record):
    """Sentences about what is wrong; none when nothing is."""
    return [f"{record.session}: {finding}"
            for find in (find_lost, find_gaps, find_unfinished, find_doubled)
            for finding in find(record)]
