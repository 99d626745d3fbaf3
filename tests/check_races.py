# SPDX-License-Identifier: Apache-2.0
"""Races written down by hand, one for each rule and beside it the same without the race; and
traces at random against a graph of all their operations.  Called by check_questions.py.

A line is "OP STREAM [PTR [DETAIL]]": PTR is a block's address or an event's handle, a block has
256 bytes.  "@N" in front is the device.
"""
from check_simulated import Random

SIZE = 256


def line(text):
    fields = text.split()
    device = fields.pop(0)[1:] if text.startswith("@") else "0"
    op, stream = fields[0], fields[1]
    ptr = fields[2] if len(fields) > 2 and fields[2] != "-" else ""
    detail = fields[3] if len(fields) > 3 else ""
    size = SIZE if op == "alloc" else ""
    return f"1,,{op},{device},{stream},{ptr},{size},,,{detail}"


# Name, the trace ("; " between lines), and what is found: kind, the two events.
CASES = [
    ("use without a wait", "alloc 7 0x1000; use 9 0x1000 read", [("use-before-ready", 0, 1)]),
    ("use with a wait", "alloc 7 0x1000; record 7 1; wait 9 1; use 9 0x1000 read", []),
    ("the same stream", "alloc 7 0x1000; use 7 0x1000 write; free 7 0x1000; alloc 7 0x1000; use 7 0x1000", []),
    ("the record is too early", "record 7 1; alloc 7 0x1000; wait 9 1; use 9 0x1000 read",
     [("use-before-ready", 1, 3)]),
    ("the wait is too late", "alloc 7 0x1000; record 7 1; use 9 0x1000 read; wait 9 1",
     [("use-before-ready", 0, 2)]),
    ("a chain", "alloc 7 0x1000; record 7 1; wait 8 1; record 8 2; wait 9 2; use 9 0x1000", []),
    ("an event recorded again", "alloc 7 0x1000; record 7 1; record 8 1; wait 9 1; use 9 0x1000 read",
     [("use-before-ready", 0, 4)]),
    ("a wait keeps what the event was", "alloc 7 0x1000; record 7 1; wait 9 1; record 8 1; use 9 0x1000", []),
    ("an event that was never recorded", "alloc 7 0x1000; wait 9 1; use 9 0x1000 read",
     [("use-before-ready", 0, 2)]),
    ("the host waited", "alloc 7 0x1000; sync 7; use 9 0x1000", []),
    ("the host waited for another", "alloc 7 0x1000; sync 9; use 9 0x1000 read", [("use-before-ready", 0, 2)]),
    ("the host saw an event", "alloc 7 0x1000; record 7 1; sync 7 1 event; use 9 0x1000", []),
    ("the host saw an earlier event", "record 7 1; alloc 7 0x1000; sync 7 1 event; use 9 0x1000 read",
     [("use-before-ready", 1, 3)]),
    ("the host saw an event that was never recorded", "alloc 7 0x1000; sync 7 1 event; use 9 0x1000 read",
     [("use-before-ready", 0, 2)]),
    ("the host waited for all", "alloc 7 0x1000; sync 3 - device; use 9 0x1000", []),
    ("a device's streams alone", "alloc 7 0x1000; @1 sync 0 - device; use 9 0x1000 read",
     [("use-before-ready", 0, 2)]),
    ("a new stream starts at the host", "alloc 7 0x1000; sync 7; stream_create 9 - non_blocking; use 9 0x1000", []),
    ("a new stream is after nothing else", "alloc 7 0x1000; stream_create 9 - blocking; use 9 0x1000 read",
     [("use-before-ready", 0, 2)]),
    ("a handle that came back", "alloc 7 0x1000; stream_destroy 7; stream_create 7 - blocking; use 7 0x1000 read",
     [("use-before-ready", 0, 3)]),
    ("a handle that came back, unsaid", "alloc 7 0x1000; stream_destroy 7; use 7 0x1000 read",
     [("use-before-ready", 0, 2)]),
    ("blocking streams and the legacy stream", "stream_create 8 - blocking; alloc 0 0x1000; use 8 0x1000; free 0 0x1000",
     []),
    ("through the legacy stream", "stream_create 8 - blocking; stream_create 9 - blocking; alloc 8 0x1000; "
     "alloc 0 0x2000; use 9 0x1000; free 9 0x2000", []),
    ("blocking streams alone", "stream_create 8 - blocking; stream_create 9 - blocking; alloc 8 0x1000; "
     "use 9 0x1000 read", [("use-before-ready", 2, 3)]),
    ("legacy and non-blocking", "stream_create 8 - non_blocking; alloc 0 0x1000; use 8 0x1000 read",
     [("use-before-ready", 1, 2)]),
    ("legacy and nobody says", "alloc 0 0x1000; use 8 0x1000 read", [("use-before-ready", 0, 1)]),
    ("the legacy stream of another device", "@1 stream_create 8 - blocking; alloc 0 0x1000; @1 use 8 0x1000 read",
     [("use-before-ready", 1, 2)]),
    ("write and read", "alloc 7 0x1000; record 7 1; wait 9 1; use 7 0x1000 write; use 9 0x1000 read",
     [("unordered-use", 3, 4)]),
    ("read and write", "alloc 7 0x1000; record 7 1; wait 9 1; use 9 0x1000 read; use 7 0x1000 write",
     [("unordered-use", 3, 4)]),
    ("reads", "alloc 7 0x1000; record 7 1; wait 9 1; use 9 0x1000 read; use 7 0x1000 read", []),
    ("reads that write, too", "alloc 7 0x1000; record 7 1; wait 9 1; use 9 0x1000 read_write; use 7 0x1000 read_write",
     [("unordered-use", 3, 4)]),
    ("uses of no kind", "alloc 7 0x1000; record 7 1; wait 9 1; use 9 0x1000; use 7 0x1000", [("unordered-use", 3, 4)]),
    ("reads that a write waited for", "alloc 7 0x1000; record 7 1; wait 8 1; wait 9 1; use 8 0x1000 read; "
     "use 9 0x1000 read; record 8 2; record 9 3; wait 7 2; wait 7 3; use 7 0x1000 write", []),
    ("one read that it did not", "alloc 7 0x1000; record 7 1; wait 8 1; wait 9 1; use 8 0x1000 read; "
     "use 9 0x1000 read; record 8 2; wait 7 2; use 7 0x1000 write", [("unordered-use", 5, 8)]),
    ("a use inside a block", "alloc 7 0x1000; use 9 0x10ff read", [("use-before-ready", 0, 1)]),
    ("a use on another device", "alloc 7 0x1000; @1 use 7 0x1000 read", [("use-before-ready", 0, 1)]),
    ("free on another stream", "alloc 7 0x1000; use 7 0x1000; free 9 0x1000",
     [("unordered-free", 0, 2)]),
    ("free before a use is over", "alloc 7 0x1000; record 7 1; wait 9 1; use 9 0x1000 read; free 7 0x1000",
     [("unordered-free", 3, 4)]),
    ("free after it", "alloc 7 0x1000; record 7 1; wait 9 1; use 9 0x1000; record 9 2; wait 7 2; free 7 0x1000", []),
    ("a deferred free waits itself", "alloc 7 0x1000; record 7 1; wait 9 1; use 9 0x1000; free 7 0x1000 deferred; "
     "free_completed 7 0x1000; alloc 9 0x1000", []),
    ("a deferred free that has not completed", "alloc 7 0x1000; record 7 1; wait 9 1; use 9 0x1000; "
     "free 7 0x1000 deferred; alloc 7 0x1000", [("unordered-reuse", 3, 5)]),
    ("reuse", "sync 7; alloc 7 0x1000; free 7 0x1000; alloc 9 0x1000", [("unordered-reuse", 2, 3)]),
    ("reuse that the recorder orders", "sync 7; alloc 7 0x1000; free 7 0x1000 ordered; alloc 9 0x1000", []),
    ("deferred reuse that the recorder orders", "sync 7; alloc 7 0x1000; free 7 0x1000 deferred;ordered; alloc 9 0x1000",
     []),
    ("its block is used too early all the same", "alloc 7 0x1000; use 9 0x1000 read; free 7 0x1000 deferred;ordered",
     [("use-before-ready", 0, 1)]),
    ("reuse with a wait", "alloc 7 0x1000; free 7 0x1000; record 7 1; wait 9 1; alloc 9 0x1000", []),
    ("reuse with a wait for before the free", "alloc 7 0x1000; record 7 1; free 7 0x1000; wait 9 1; alloc 9 0x1000",
     [("unordered-reuse", 2, 4)]),
    ("reuse of a part", "sync 7; alloc 7 0x1000; free 7 0x1000; alloc 9 0x1080", [("unordered-reuse", 2, 3)]),
    ("reuse of two", "sync 7; alloc 7 0x1000; alloc 8 0x1100; free 7 0x1000; free 8 0x1100; alloc 9 0x1080",
     [("unordered-reuse", 3, 5), ("unordered-reuse", 4, 5)]),
    ("reuse of what is left", "sync 7; alloc 7 0x1000; free 7 0x1000; alloc 7 0x1080; alloc 9 0xf80",
     [("unordered-reuse", 2, 4)]),
    ("reuse beside it", "sync 7; alloc 7 0x1000; free 7 0x1000; alloc 9 0x1100; alloc 9 0xf00", []),
    ("another device's address", "sync 7; alloc 7 0x1000; free 7 0x1000; @1 alloc 9 0x1000", []),
    ("use after free", "alloc 7 0x1000; free 7 0x1000; use 7 0x1000 read", [("use-after-free", 1, 2)]),
    ("a pair is reported once", "alloc 7 0x1000; use 9 0x1000 read; use 9 0x1000 read; use 8 0x1000 read",
     [("use-before-ready", 0, 1), ("use-before-ready", 0, 3)]),
    ("what is unknown", "use 9 0x5000; free 9 0x5000; free 9 0; alloc 7 0; sync 7", []),
    ("an address that is live", "alloc 7 0x1000; alloc 9 0x1000; use 9 0x1000", []),
]


def check_cases(folder, write, answer, expect):
    for name, text, wanted in CASES:
        path = write(folder, "races.csv", [line(part.strip()) for part in text.split("; ")])
        found = answer(1 if wanted else 0, "race", path, "--limit", "0")
        expect(name, found["judged"], True)
        expect(name, [(race["kind"], race["first"]["event"], race["second"]["event"]) for race in found["races"]],
               wanted)
        expect(name, (found["total"], sum(found["kinds"].values())), (len(wanted),) * 2)


def check_words(folder, write, answer, soma, expect):
    def missing(text):
        path = write(folder, "races.csv", [line(part.strip()) for part in text.split("; ")])
        return answer(1, "race", path)["races"][0]["missing"]

    expect("the edge", missing("alloc 7 0x1000; use 9 0x1000"),
           "stream 9 never waited for stream 7 at or after event 0")
    expect("a handle that came back", missing("alloc 7 0x1000; stream_destroy 7; use 7 0x1000"),
           "stream 7 of event 2 is a later stream of that handle, and never waited for the earlier one "
           "at or after event 0")
    expect("nobody says blocking", missing("alloc 0 0x1000; use 9 0x1000"),
           "stream 9 never waited for stream 0 at or after event 0, and the trace does not say that "
           "stream 9 is blocking")
    expect("devices", missing("alloc 7 0x1000; @1 use 7 0x1000"),
           "stream 7 of device 1 never waited for stream 7 of device 0 at or after event 0")
    many = write(folder, "many.csv", [line("sync 1")] + [line(f"{op} {stream} {i << 12:#x} read") for i in range(1, 40)
                                      for op, stream in (("alloc", 7), ("use", 9))])
    found = answer(1, "race", many)
    expect("the limit", (found["total"], len(found["races"])), (39, 20))
    expect("another limit", len(answer(1, "race", many, "--limit", "3")["races"]), 3)
    status, out, err = soma("race", many, "-n", "1")
    expect("text", (status, "and 38 more" in out, "39 races found" in out), (1, True, True))
    expect("a recorder that notes no waits", "the recorder does not note it" in out, True)
    nothing = write(folder, "nothing.csv", [line("alloc 7 0x1000"), line("free 9 0x1000"), line("alloc 5 0x1000")])
    status, out, err = soma("race", nothing)
    expect("nothing to judge", (status, "Nothing to judge" in out), (0, True))
    one = write(folder, "one.csv", [line("alloc 7 0x1000"), line("use 9 0x1000"), line("wait 9 3"), line("use 9 0x9000")])
    out = soma("race", one)[1]
    expect(f"one of each: {out}", "\n1 race found\n" in out and "  1 wait for what" in out and "  1 use of no block" in out,
           True)
    lost = write(folder, "lost.csv", [line("alloc 1 0x1000"), line("sync 1"), "1,,mark,0,0,,,soma,,events lost here: 3"])
    expect("lost events", (answer(0, "race", lost)["counts"]["events_lost"],
                           "Events are missing" in soma("race", lost)[1]), (True, True))


def check_memory(folder, write, answer, expect):
    """Freed blocks are kept up to a limit, and what is forgotten is counted."""
    def some(count, end):
        lines = [line(f"{op} 7 {(i + 1) << 12:#x}") for i in range(count) for op in ("alloc", "free")]
        return answer(end, "race", write(folder, "freed.csv", [line("sync 9"), *lines, line("alloc 9 0x1000"),
                                                               line("alloc 9 0x20000000")]), "-n", "1")

    kept = some(1 << 18, 1)
    expect("all are kept", (kept["counts"]["forgotten"], kept["total"]), (0, 2))
    kept = some((1 << 18) + 10, 1)
    expect("the oldest are forgotten", (kept["counts"]["forgotten"], kept["total"]), (10, 1))


# ---- the oracle ----------------------------------------------------------------------------


class Graph:
    """Every operation is a node, with all that comes before it as a set of bits."""

    def __init__(self):
        self.before = []  # by node
        self.last = {}  # of a stream that is there
        self.ends = []  # (device, node): of streams that are gone
        self.blocking = {}  # stream: its nodes' last, also when it is gone
        self.kinds = {}
        self.incarnation = {}  # of a stream that was created: the line
        self.host = 0
        self.events = {}

    def node(self, bits):
        number = len(self.before)
        self.before.append(bits | 1 << number)
        return self.before[number]

    def operation(self, stream, more=0):
        bits = self.host | more
        if stream not in self.last:
            self.last[stream] = 0
        bits |= self.last[stream]
        if stream == 0:
            for last in self.blocking.values():
                bits |= last
        elif self.kinds.get(stream) == "blocking":
            bits |= self.last.get(0, 0)
        bits = self.node(bits)
        self.last[stream] = bits
        if self.kinds.get(stream) == "blocking":
            self.blocking[self.incarnation[stream]] = bits
        return bits

    def create(self, stream, kind, number):
        self.destroy(stream)
        self.kinds[stream] = kind
        self.incarnation[stream] = number
        self.last[stream] = self.host

    def destroy(self, stream):
        if stream in self.last:
            self.ends.append(self.last.pop(stream))
        self.kinds.pop(stream, None)


def oracle(lines):
    """All pairs of lines that must be in order and are not."""
    graph, memory, races = Graph(), {}, set()
    for number, text in enumerate(lines):
        fields = text.split()
        op, stream = fields[0], int(fields[1])
        if op == "stream_create":
            graph.create(stream, fields[3], number)
        elif op == "stream_destroy":
            graph.destroy(stream)
        elif op == "record":
            graph.events[fields[2]] = graph.operation(stream)
        elif op == "wait":
            if fields[2] in graph.events:
                graph.operation(stream, graph.events[fields[2]])
        elif op == "sync" and fields[-1] == "device":
            for last in [*graph.last.values(), *graph.ends]:
                graph.host |= last
        elif op == "sync":
            graph.host |= graph.operation(stream)
        else:
            now = graph.operation(stream)
            own = 1 << (now.bit_length() - 1)
            done = memory.setdefault(fields[2], [])
            writes = fields[-1] != "read"
            races |= {(first, number) for first, place, wrote in done
                      if (writes or wrote) and not now & place}
            done.append((number, own, writes))
    return races


def random_lines(random):
    lines, live = [], set()
    blocks = ["0x1000", "0x2000", "0x3000"]
    streams = [0, 7, 8, 9]
    for stream in (7, 8):
        if random.chance(500):
            lines.append(f"stream_create {stream} - {random.choice(['blocking', 'non_blocking'])}")
    for _ in range(5 + random.below(40)):
        kind, stream, block = random.below(100), random.choice(streams), random.choice(blocks)
        if kind < 22:
            lines.append(f"record {stream} {random.below(3)}")
        elif kind < 44:
            lines.append(f"wait {stream} {random.below(3)}")
        elif kind < 48:
            lines.append(f"sync {stream}" + (" - device" if random.chance(300) else ""))
        elif kind < 50 and stream != 0:
            lines.append(f"stream_destroy {stream}")
        elif kind < 52 and stream != 0:
            lines.append(f"stream_create {stream} - {random.choice(['blocking', 'non_blocking'])}")
        elif block not in live:
            lines.append(f"alloc {stream} {block}")
            live.add(block)
        elif kind < 64:
            lines.append(f"free {stream} {block}")
            live.discard(block)
        else:
            lines.append(f"use {stream} {block} {random.choice(['read', 'read', 'write', 'read_write'])}")
    return lines


def check_oracle(folder, write, answer, expect):
    """What is reported is no order; and where anything is in none, something is reported."""
    raced = 0
    for seed in range(150):
        lines = random_lines(Random(seed)) + ["sync 7", "alloc 7 0x9000000"]  # one at least
        wanted = oracle(lines)
        path = write(folder, "random.csv", [line(text) for text in lines])
        found = answer(1 if wanted else 0, "race", path, "-n", "0")
        pairs = {(race["first"]["event"], race["second"]["event"]) for race in found["races"]}
        expect(f"seed {seed}: races that are none", pairs - wanted, set())
        expect(f"seed {seed}: the first operation of a race", min((pair[1] for pair in pairs), default=None),
               min((pair[1] for pair in wanted), default=None))
        raced += bool(wanted)
    expect("some have races, and some have not", 15 < raced < 135, True)


def check_races(folder, write, answer, soma, expect):
    check_cases(folder, write, answer, expect)
    check_words(folder, write, answer, soma, expect)
    check_memory(folder, write, answer, expect)
    check_oracle(folder, write, answer, expect)
