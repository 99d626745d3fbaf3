#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The subcommands that answer questions about a trace: stats, check, diff and race; fit, whatif and oom
are in check_capacity.py.

Their answers are held against each other's and against replay's, on the examples, on the
recordings where they are there, on broken and on hostile traces; and races against a naive
oracle, which shares no code with soma: a graph of all operations.

    check_questions.py SOMA SOURCE
"""
import json
import os
import sys
import tempfile
import xml.etree.ElementTree as xml

from check_capacity import ODD, check_capacity
from check_races import check_races
from check_recorded import check_recorded
from check_simulated import Random
from questions import HEADER, SOURCE, answer, expect, failures, samples, soma, write

HUGE = 2**64 - 1
FAILED = "1,,alloc_failed,0,0,,64,,,"  # all that there is


# ---- consistency ---------------------------------------------------------------------

COUNTS = ("events", "ignored", "unknown_frees", "overwritten", "recorded_failed", "start_blocks")


def same_as_replay(path):
    """stats, check and diff say what replay says."""
    replay = answer(0, "replay", path)
    stats = answer(0, "stats", path)
    for key in ("allocs", "frees", "peak_live_requested"):
        expect(f"{path}: stats' {key}", stats[key], replay[key])
    for key in COUNTS:
        expect(f"{path}: stats' {key}", stats["counts"][key], replay["counts"][key])
    for key in ("live_blocks_at_end", "live_bytes_at_end", "peak_event"):
        expect(f"{path}: stats' {key}", stats[key], replay["counts"][key])
    held = {row["name"]: row["live_bytes_at_peak"] for row in stats["holders"] if row["live_bytes_at_peak"]}
    expect(f"{path}: holders at the peak", held, {row["name"]: row["bytes"] for row in replay["holders"]})
    for table in ("holders", "streams"):
        for key, total in (("live_bytes_at_peak", "peak_live_requested"), ("live_bytes_at_end", "live_bytes_at_end"),
                           ("live_blocks_at_end", "live_blocks_at_end")):
            expect(f"{path}: {table}, {key}", sum(row[key] for row in stats[table]), stats[total])
    for table in ("holders", "streams"):  # what was there before is nobody's allocation
        for key, total in (("bytes", "allocated_bytes"), ("allocs", "allocs")):
            expect(f"{path}: {table}, {key}", sum(row[key] for row in stats[table]),
                   stats[total] - (stats["counts"]["ignored"] if key == "allocs" else 0))
    expect(f"{path}: histogram", sum(row["count"] for row in stats["sizes"]),
           stats["allocs"] - stats["counts"]["ignored"])
    check_same(path, replay)


def check_same(path, replay):
    """The limits are where replay says, to the byte."""
    peak, reserved = replay["peak_live_requested"], replay["peak_reserved"]
    leak = replay["counts"]["live_bytes_at_end"]
    limits = ["--max-peak", str(peak), "--max-reserved", str(reserved), "--max-leak", str(leak)]
    kept = answer(0, "check", path, *limits, "--max-frag", "1")
    got = {limit["name"]: limit["measured"] for limit in kept["limits"]}
    expect(f"{path}: check", [got[name] for name in ("max-peak", "max-reserved", "max-leak")],
           [peak, reserved, leak])
    expect(f"{path}: fragmentation", round(got["max-frag"], 9),
           round(1 - replay["utilisation"], 9) if reserved else 0)
    expect(f"{path}: peak event", kept["limits"][0]["event"], replay["counts"]["peak_event"])
    for name, value in (("--max-peak", peak), ("--max-reserved", reserved), ("--max-leak", leak)):
        if value > 0:
            expect(f"{path}: {name}, a byte less", answer(1, "check", path, name, str(value - 1))["violated"], 1)
    same = answer(0, "diff", path, path)
    expect(f"{path}: the same", (same["identical"], same["grew"], same["shrank"]), (True, 0, 0))
    expect(f"{path}: text of diff", "Identical" in soma("diff", path, path)[1], True)


# ---- known answers ---------------------------------------------------------------------

LIVES = [  # two streams; times in ns
    "100,,alloc,0,1,0x1000,1000,a,,",
    "200,,alloc,0,2,0x2000,3000,b,,",
    "300,,free,0,1,0x1000,,,,deferred",
    "400,,alloc,0,1,0x3000,500,a,,",
    "900,,free_completed,0,1,0x1000,,,,",
    "1000,,free,0,1,0x3000,,,,",
    "1100,,alloc,0,2,0x1000,64,c,,",
    "1200,,free,0,9,0x2000,,,,",
]


def known_stats(folder):
    stats = answer(0, "stats", write(folder, "lives.csv", LIVES))
    expect("peak", (stats["peak_live_requested"], stats["peak_event"]), (4000, 1))
    expect("most live", (stats["most_live_blocks"], stats["most_live_blocks_event"]), (2, 1))
    expect("end", (stats["live_blocks_at_end"], stats["live_bytes_at_end"]), (1, 64))
    expect("sizes", stats["sizes"], [{"from": 64, "count": 1}, {"from": 256, "count": 1},
                                     {"from": 512, "count": 1}, {"from": 2048, "count": 1}])
    times = stats["lifetime_ns"]
    expect("lifetimes", [times[key] for key in ("count", "least", "p50", "most")], [3, 200, 600, 1000])
    events = stats["lifetime_events"]
    expect("lifetimes in events", [events[key] for key in ("count", "least", "p50", "most")], [3, 2, 2, 6])
    expect("delay", (stats["free_delay_ns"]["most"], stats["free_delay_events"]["most"]), (600, 2))
    expect("stray frees", stats["counts"]["frees_on_other_streams"], 1)
    streams = {row["stream"]: row for row in stats["streams"]}
    expect("stream 1", [streams["0x1"][key] for key in ("allocs", "frees", "bytes", "most_live_bytes",
           "completed_frees", "free_delay_ns_mean")], [2, 2, 1500, 1000, 1, 600])
    expect("holder a", [(row["allocs"], row["bytes"]) for row in stats["holders"] if row["name"] == "a"],
           [(2, 1500)])
    expect("rates", stats["rates"]["duration_ns"], 1100)
    expect("allocations a second", round(stats["rates"]["allocs_per_second"]), round(4 / 1100e-9))
    midrun = write(folder, "midrun.csv", [
        ",,segment_alloc,0,1,0x200000,2097152,,,start;small", ",,alloc,0,1,0x200000,5000,w,,start",
        "1,,alloc,0,1,0x300000,100,a,,", "2,,free,0,1,0x200000,5000,,,"])
    stats = answer(0, "stats", midrun)
    expect("what was there before", [stats["counts"]["start_blocks"], stats["counts"]["start_bytes"],
           stats["allocated_bytes"], stats["freed_bytes"], stats["peak_live_requested"]], [1, 5000, 100, 5000, 5100])
    expect("who allocated", [(row["name"], row["allocs"], row["bytes"], row["most_live_bytes"])
                             for row in stats["holders"]], [("a", 1, 100, 100), ("w", 0, 0, 5000)])
    expect("of the stream", [(row["bytes"], row["most_live_bytes"]) for row in stats["streams"]], [(100, 5100)])
    expect("text", "1  of 4.88 KiB, allocated before the trace begins\n" in soma("stats", midrun)[1], True)
    freed = write(folder, "freed.csv", [
        ",,segment_alloc,0,1,0x200000,2097152,,,start;small", ",,alloc,0,1,0x200000,4096,w,,start",
        ",,alloc,0,1,0x280000,1024,w,,start;pending", "1,,alloc,0,1,0x300000,100,a,,"])
    stats, text = answer(0, "stats", freed), soma("stats", freed)[1]
    expect("freed before", [stats["counts"][key] for key in ("start_blocks", "start_bytes", "start_pending_blocks",
           "start_pending_bytes")] + [stats["peak_live_requested"]], [2, 5120, 1, 1024, 4196])
    expect(f"the start is not above the peak: {text}",
           "Live at the start                1  of 4.00 KiB, allocated before the trace begins\n"
           "  Freed before the start           1  of 1.00 KiB, " in text, True)
    path = os.path.join(folder, "moments.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.write("id,lower,upper,size\na,0,2000000,10\nb,1000000,3000000,20\n")
    moments = answer(0, "stats", path)
    expect("moments are no nanoseconds", (moments["rates"], moments["lifetime_ns"], moments["lifetime_events"]["most"]),
           (None, None, 2))
    fast = write(folder, "fast.csv", [f"{i * 85000},,alloc,0,1,{i + 1}000,8,,," for i in range(30)])
    expect("a rate", "Allocations                 12,170 a second" in soma("stats", fast)[1], True)
    single = soma("stats", write(folder, "single.csv", ["1,,alloc,0,1,0x10,8,,,"]))[1]
    expect(f"one of each: {single}", " 1 event\n" in single and "1  block, at event 0" in single, True)
    expect("one limit", "1 of 1 limit kept\n" in soma("check", fast, "--max-peak", "1G")[1], True)
    early = answer(0, "stats", write(folder, "back.csv", ["500,,alloc,0,1,0x10,8,,,", "100,,free,0,1,0x10,,,,"]))
    expect("a time that goes back", (early["counts"]["backward_times"], early["lifetime_ns"]), (1, None))
    once = answer(0, "stats", write(folder, "once.csv", ["5,,alloc,0,1,0x10,8,,,"]))
    expect("one event", (once["allocs"], once["lifetime_events"], once["rates"]), (1, None, None))


def nameless(folder):
    """A holder that nobody names is called the same by all, whenever its block was allocated."""
    path = write(folder, "nameless.csv", [
        ",,segment_alloc,0,1,0x200000,2097152,,,start;small", ",,alloc,0,1,0x200000,5000,,,start",
        "1,,alloc,0,1,0x300000,100,a,,", "2,,alloc,0,1,0x301000,100,,,"])
    page = os.path.join(folder, "nameless.html")
    other = write(folder, "named.csv", ["1,,alloc,0,1,0x300000,100,a,,"])
    for question in (["stats", path], ["replay", path], ["diff", other, path], ["oom", "-c", "5800", "-p", "strict", path],
                     ["plot", "-o", page, path]):
        out = soma(*question)[1]
        if question[0] == "plot":
            with open(page, encoding="utf-8") as file:
                out = file.read()
        expect(f"soma {question[0]}: a holder without a name", ("(not recorded)" in out, "before the trace)" in out),
               (True, False))


def without_allocations(folder):
    """Whatever is asked of a trace that has none: that is said, and nothing is answered."""
    memory = '{"ph": "i", "name": "[memory]", "ts": 1, "args": {"Bytes": 8, "Device Type": 0, "Device Id": -1}}'
    snapshot = b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces]]au."
    traces = [("header.csv", HEADER, "a soma trace (time,thread,op,...), with no events; expected lines with the op"),
              ("frees.csv", HEADER + "1,,free,0,0,0x10,,,,\n2,,sync,0,0,,,,,device\n3,,sync,0,0,,,,,device\n",
               "with 1 free, 2 sync; expected"),
              ("rmm.csv", "Thread,Time,Action,Pointer,Size,Stream\n", "expected lines with the action allocate"),
              ("placement.csv", "id,lower,upper,size\n", "expected a line for each block"),
              ("kineto.json", '{"traceEvents": [{"ph": "X", "name": "a"},\n%s]}' % memory,
               "a Kineto trace (JSON), with no events, and 2 other entries; expected \"[memory]\""),
              ("snapshot.pickle", snapshot, "expected events \"alloc\" or segments"),
              ("umpire.replay", '{"category": "operation", "name": "replay_version"}\n', "expected operations")]
    for name, text, message in traces:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        junit = ["--junit", os.path.join(folder, "junit.xml")]
        for command in (["replay"], ["replay", "-b", "host"], ["stats"], ["check", "--max-peak", "1G"] + junit,
                        ["diff", path], ["race"], ["fit"], ["whatif"], ["oom"], ["oom", "-c", "1G"],
                        ["convert", "-t", "soma"]):
            output = ["-"] if command[0] == "convert" else []
            status, out, err = soma(*command, path, *output)
            what = f"{name}, soma {' '.join(command)}"
            expect(what, (status, out), (3, ""))
            expect(f"{what}: {err}", "no allocation is in it" in err and message in err, True)
        with open(junit[1], encoding="utf-8") as file:
            expect(f"{name}, JUnit", "no allocation is in it" in file.read(), True)
        status, _, err = soma("plot", "-o", os.path.join(folder, "x.svg"), path)
        expect(f"{name}, soma plot: {err}", (status, os.path.exists(os.path.join(folder, "x.svg"))), (3, False))
    cut = os.path.join(folder, "cut.csv")
    with open(cut, "w", encoding="utf-8") as file:
        file.write(HEADER + "1,,alloc,0")
    for options in ([], ["-P"]):
        status, out, err = soma("replay", *options, cut)
        expect("a cut trace", (status, out), (3, ""))
        expect(err, "cut.csv:2: the file ends in the middle of a line, and no allocation is before that" in err, True)
    # A failure, or memory that was there at the start, is something to be asked about.
    answer(1, "oom", write(folder, "failure.csv", ["1,,oom,0,0,,1000,,,64"]))


def known_latencies():
    """What the recordings' free_requested and free_completed say, in microseconds."""
    path = os.path.join(os.environ.get("SOMA_TEST_TRACES", ""), "finetune-full.pickle")
    if not os.path.exists(path):
        return
    stats = answer(0, "stats", path)
    delays = stats["free_delay_ns"]
    expect("completed frees", (delays["count"], stats["free_delay_events"]["most"]), (7549, 0))
    expect("latencies", [delays[key] for key in ("least", "p50", "p99", "most")], [0, 0, 2000, 247000])
    expect("of the stream", (stats["streams"][0]["completed_frees"], stats["streams"][0]["free_delay_ns_most"]),
           (7549, 247000))


def percentiles(folder):
    """At most 3.2 % above the exact ones, never below."""
    random = Random(5)
    sizes = [1 + random.below(2 ** (1 + random.below(40))) for _ in range(3000)]
    path = write(folder, "sizes.csv", [f"{i},,alloc,0,0,{(i + 1) << 12:#x},{size},,,"
                                       for i, size in enumerate(sizes)])
    size = answer(0, "stats", path)["size"]
    sizes.sort()
    for name, percent in (("p10", 10), ("p50", 50), ("p90", 90), ("p99", 99)):
        exact = sizes[-(-len(sizes) * percent // 100) - 1]
        expect(f"{name}: {size[name]} for {exact}", exact <= size[name] <= exact * 1.032, True)
    expect("mean", abs(size["mean"] - sum(sizes) / len(sizes)) < 1e-6 * size["mean"], True)
    expect("ends", (size["least"], size["most"]), (sizes[0], sizes[-1]))


KEYS = {
    "stats": "allocated_bytes allocs counts device format free_delay_events free_delay_ns freed_bytes frees holders "
             "lifetime_events lifetime_ns live_blocks_at_end live_bytes_at_end most_live_blocks "
             "most_live_blocks_event peak_event peak_live_requested rates size sizes streams trace",
    "check": "device limits policy recorded_oom trace truncated violated",
    "diff": "after before by gone grew growth_at_end growth_at_peak identical new rows same shrank",
    "race": "counts format judged kinds races total trace",
}


def keys(folder):
    """Every key is always there."""
    example = os.path.join(SOURCE, "examples", "tiny-full.csv")
    none = write(folder, "none.csv", [FAILED])
    for path in (example, none):
        for name, more in (("stats", []), ("check", ["--max-peak", "1T"]), ("diff", [path]), ("race", [])):
            expect(f"{name}: keys", sorted(answer(0, name, path, *more)), KEYS[name].split())
    limit = answer(0, "check", none, "--max-leak", "0")["limits"][0]
    expect("a limit's keys", sorted(limit), ["event", "holder", "limit", "measured", "name", "violated", "where"])


def known_diff(folder):
    before = write(folder, "before.csv", ["1,,alloc,0,1,0x1000,100,f (x.py:10),,", "2,,alloc,0,1,0x2000,50,old,,",
                                          "3,,alloc,0,2,0x3000,10,same,,", "4,,free,0,1,0x1000,,,,"])
    after = write(folder, "after.csv", ["1,,alloc,0,1,0x1000,300,f (x.py:12),,", "2,,alloc,0,2,0x3000,10,same,,",
                                        "3,,alloc,0,2,0x4000,20,young,,", "4,,free,0,1,0x1000,,,,"])
    growth = answer(1, "diff", before, after)
    expect("names", [(row["name"], row["status"], row["growth_at_peak"], row["growth_at_end"])
                     for row in growth["rows"]],
           [("f (x.py:12)", "new", 300, 0), ("f (x.py:10)", "gone", -100, 0), ("old", "gone", -50, -50),
            ("young", "new", 20, 20), ("same", "both", 0, 0)])
    expect("counts", [growth[key] for key in ("grew", "shrank", "same", "new", "gone", "growth_at_peak",
                                              "growth_at_end")], [2, 2, 1, 2, 2, 170, -30])
    lines = answer(1, "diff", "--ignore-lines", before, after)
    expect("without lines", [(row["name"], row["growth_at_peak"]) for row in lines["rows"]][:2],
           [("f (x.py)", 200), ("old", -50)])
    streams = answer(1, "diff", "--by", "stream", before, after, "--limit", "1")
    expect("streams", [(row["stream"], row["growth_at_peak"]) for row in streams["rows"]], [("0x1", 150)])
    status, out, err = soma("diff", before, after, "--limit", "2")
    expect("text", (status, "and 2 more" in out, "2 of them new, 2 gone" in out), (1, True, True))
    out = soma("diff", before, after)[1]
    expect("what shrank is shown, what holds the same is counted",
           ("-100 B" in out, "-50 B" in out, "  same" in out, "2 grew, 2 shrank, 1 hold the same" in out),
           (True, True, False, True))
    gone = answer(1, "diff", after, write(folder, "none.csv", [FAILED]))
    expect("all gone", (gone["gone"], gone["new"]), (3, 0))


def other_formats(folder):
    """A trace and what soma convert makes of it hold the same."""
    example = os.path.join(SOURCE, "examples", "tiny-full.csv")
    log = os.path.join(folder, "tiny.rmm.csv")
    expect("convert", soma("convert", "-q", example, log)[0], 0)
    growth = answer(1, "diff", example, log)  # an RMM log has no names
    expect("growth in all", (growth["growth_at_peak"], growth["growth_at_end"]), (0, 0))
    expect("streams", answer(0, "diff", "--by=stream", example, log)["identical"], True)


# ---- check ------------------------------------------------------------------------------

def junit(folder):
    name = "<&\"'>\x01\u2603 ]]>"
    path = write(folder, "a&<b>.csv", [f'1,,alloc,0,1,0x1000,1000,"{name.replace(chr(34), chr(34) * 2)}",,'])
    report = os.path.join(folder, "report.xml")
    status, out, err = soma("check", path, "--max-peak", "10", "--max-leak", "1G", "--junit", report)
    suite = xml.parse(report).getroot().find("testsuite")
    expect("suite", (status, suite.get("tests"), suite.get("failures"), suite.get("name").endswith("a&<b>.csv")),
           (1, "2", "1", True))
    cases = {case.get("name"): case.find("failure") for case in suite.findall("testcase")}
    expect("cases", sorted(cases), ["max-leak", "max-peak"])
    expect("the holder", "<&\"'>?\u2603 ]]>" in cases["max-peak"].text, True)
    expect("event 0", "at event 0" in cases["max-peak"].get("message"), True)
    expect("what is kept", cases["max-leak"], None)
    unknown = os.path.join(folder, "unknown.csv")
    with open(unknown, "w", encoding="utf-8") as file:
        file.write("id,name\n")
    err = soma("check", unknown, "--max-peak", "1", "-J", report)[2]
    expect(f"a line for each format: {err}", ("\n  a pickled PyTorch memory snapshot\n  an RMM log (" in err,
           max(len(line) for line in err.splitlines()) < 80 + len(unknown)), (True, True))
    with open(report, encoding="utf-8") as file:
        expect("one line in an attribute", "expected one of   a pickled PyTorch" in file.read(), True)
    for wrong, status in ((write(folder, "wrong.csv", ["1,,frobnicate,0,1,1,1,,,"]), 3),
                          (os.path.join(folder, "not there"), 3)):
        expect("status", soma("check", wrong, "--max-peak", "1", "--junit", report)[0], status)
        suite = xml.parse(report).getroot().find("testsuite")
        expect("an error is in the file", (suite.get("errors"), suite.get("failures")), ("1", "0"))
    expect("a file that cannot be written", soma("check", path, "--max-peak", "1G", "-J", folder)[0], 3)
    expect("the trace itself", soma("check", path, "--max-peak", "1G", "-J", path)[0], 2)
    limits = answer(1, "check", path, "--max-peak", "999", "--capacity", "512")["limits"]
    expect("out of memory", [(limit["name"], limit["violated"]) for limit in limits],
           [("max-peak", False), ("capacity", True)])


def check_texts(folder):
    """What is measured, where, and who held the most then."""
    path = write(folder, "limits.csv", ["1,,alloc,0,1,0x1000,1000,first,,", "2,,alloc,0,1,0x2000,3000,<se&cond>,,",
                                        "3,,free,0,1,0x1000,,,,"])
    status, out, err = soma("check", "--max-peak", "3999", "--max-leak", "3000", "--max-reserved", "1T",
                            "--max-frag", "1", path)
    expect("text", (status, "VIOLATED  max-peak" in out, "at event 1" in out, "<se&cond>" in out,
                    "3 of 4 limits kept" in out), (1, True, True, True, True))
    leak = answer(1, "check", "--max-leak", "2999", path)["limits"][0]
    expect("who holds what is left", leak["holder"]["name"], "<se&cond>")
    limit = answer(1, "check", "--capacity", "2K", "--policy", "strict", path)["limits"][0]
    expect("what a capacity would have to be", (limit["measured"], limit["event"]), (4096, 1))
    expect("JUnit in no folder", soma("check", "--junit", os.path.join(folder, "no/such/folder"), "--max-peak", "1",
                                      path)[0], 3)


def devices(folder):
    path = write(folder, "devices.csv", ["1,,alloc,0,1,0x1000,100,,,", "2,,alloc,3,1,0x1000,7,,,",
                                         "3,,alloc,3,1,0x2000,7,,,"])
    most = answer(0, "stats", path)
    expect("the device with the most allocations", (most["device"], most["allocs"]), (3, 2))
    other = answer(0, "stats", "--device", "0", path)
    expect("another one", (other["allocs"], other["allocated_bytes"]), (1, 100))


def wrong(folder):
    """What is wrong in a trace is counted."""
    counts = answer(0, "stats", write(folder, "wrong.csv", [
        "1,,alloc,0,1,0x1000,100,,,", "2,,alloc,0,1,0x1000,200,,,", "3,,alloc,0,1,,100,,,", "4,,alloc,0,1,0x5000,0,,,",
        "5,,free,0,1,0x9000,,,,", "6,,free,0,1,0x1000,,,,deferred", "7,,free,0,1,0x1000,,,,",
        "8,,alloc_failed,0,1,,5,,,"]))["counts"]
    expect("what is wrong", [counts[key] for key in ("overwritten", "ignored", "unknown_frees", "recorded_failed")],
           [1, 2, 2, 1])


def usage():
    example = os.path.join(SOURCE, "examples", "tiny-full.csv")
    for arguments in (["check", example], ["check", "--max-peak", "1G"], ["check", example, "--max-frag", "1.5"],
                      ["check", example, "--max-frag", "x"], ["check", example, "--max-frag", "nan"],
                      ["check", example, "--max-peak", "-1"], ["stats"], ["stats", example, example],
                      ["stats", "--device", "7", example], ["diff", example], ["diff", "-", "-"],
                      ["diff", example, example, example], ["diff", "--by", "moon", example, example],
                      ["diff", "--device", "7", example, example], ["race"], ["race", "--limit", "-1", example]):
        status, out, err = soma(*arguments)
        expect(f"soma {' '.join(arguments)}", (status, out), (2, ""))
    for arguments, text in ((["check", example], "expected a limit"), (["diff", example], "expected two traces"),
                            (["check", example, "--max-frag", "nan"], "a fraction from 0 to 1"),
                            (["diff", "-", "-"], "one of the two traces only"), (["race", example, "x"], "got 'x'"),
                            (["stats", "--device", "7", example], "no device 7")):
        expect(f"soma {' '.join(arguments)}", text in soma(*arguments)[2], True)
    for name in ("stats", "check", "diff", "race"):
        expect(f"{name} --help", soma(name, "--help")[0], 0)


def beyond_all_addresses(folder):
    """What cannot be allocated at all is in no peak, but it is not fine."""
    path = write(folder, "beyond.csv", [f"1,,alloc,0,0,4096,{HUGE},,,"])
    got = answer(1, "check", "--max-peak", "1", path)
    expect("a limit of its own", [(limit["name"], limit["violated"]) for limit in got["limits"]],
           [("max-peak", False), ("capacity", True)])


# ---- what is broken, and what is hostile ---------------------------------------------------

QUESTIONS = (["stats"], ["check", "--max-peak", "1G"], ["race"], ["replay"])


def ask_all(path, statuses):
    for question in QUESTIONS:
        status = soma(*question, path)[0]
        expect(f"soma {question[0]} {path}", status in statuses, True)
        if status in (0, 1):
            json.loads(soma(*question, path, "--json")[1])
    expect(f"soma diff {path}", soma("diff", path, path)[0] in statuses, True)


def truncated(folder):
    for source in samples()[:6]:
        with open(source, "rb") as file:
            data = file.read()
        for size in (0, 1, 37, len(data) // 3, len(data) - 1):
            path = os.path.join(folder, "cut")
            with open(path, "wb") as file:
                file.write(data[:size])
            ask_all(path, (0, 1, 3))
    with open(os.path.join(SOURCE, "examples", "tiny-full.csv"), "rb") as file:
        cut = file.read()[:2000]
    path = os.path.join(folder, "cut.csv")
    with open(path, "wb") as file:
        file.write(cut)
    for question in (["stats"], ["check", "--max-peak", "1T"], ["race"]):
        expect(f"{question[0]}, truncated", soma(*question, path)[0], 1)
        expect(f"{question[0]}, taken as it is", soma(*question, path, "--partial")[0], 0)
    expect("diff, truncated", (soma("diff", path, path)[0], soma("diff", "-P", path, path)[0]), (1, 0))


def hostile_starts(folder, random):
    """Segments of the start that overlap, are too large or nowhere; blocks in them of any size; events as if none."""
    mib = 1 << 20
    for number in range(40):
        lines, blocks = [], []
        for _ in range(1 + random.below(5)):
            base = random.choice([0, 2 * mib, 4 * mib, 6 * mib, 2**47, 2**48 - 2 * mib, 2**48, 512, 513])
            size = random.choice([0, 512, 1000, 2 * mib, 2 * mib, 20 * mib, 2**47])
            lines.append(f",,{random.choice(['segment_alloc', 'segment_map'])},{random.below(2)},{random.below(3)},"
                         f"{base:#x},{size},,,{random.choice(['start', 'start;small'])}")
            device = lines[-1].split(",")[3]
            at = base
            for _ in range(random.below(4)):
                taken = random.choice([512, 1024, 700, 8 << 30, mib])
                wanted = random.choice([0, 1, 512, 600, mib, 5 << 30])
                if size - (at - base) < max(taken, wanted):
                    break
                lines.append(f",,alloc,{device},0,{at:#x},{wanted},,,start;{taken}{random.choice(['', ';pending'])}")
                blocks.append((device, at))
                at += taken + random.choice([0, 512, 4096])
        for device, at in blocks:
            lines.append(f"1,,{random.choice(['free', 'free_completed', 'alloc'])},{device},0,{at:#x},600,,,"
                         f"{random.choice(['', 'deferred'])}")
        lines.append("2,,alloc,0,0,0x10,8,,,")
        path = write(folder, "starts.csv", lines)
        ask_all(path, (0, 1, 3))
        status, _, err = soma("convert", "-q", path, path + ".csv")
        expect(f"convert of {lines}: {err}", status in (0, 3), True)


def hostile(folder):
    random = Random(9)
    values = [0, 1, 2, 4096, 2**31 - 1, 2**47, 2**48, 2**63 - 1, 2**63, HUGE - 1, HUGE]
    ops = ["alloc", "free", "free_completed", "use", "record", "wait", "sync", "stream_create", "stream_destroy",
           "alloc_failed", "oom", "trim", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "mark"]
    details = ["", "deferred", "read", "write", "device", "blocking", "non_blocking", "events lost here: 3"]
    for number in range(12):
        lines = []
        for _ in range(300):
            op = random.choice(ops[:2] if random.below(2) else ops)
            lines.append(f"{random.choice(values)},{random.below(3)},{op},{random.below(2)},{random.choice(values)},"
                         f"{random.choice(values)},{random.choice(values)},{random.choice(['', 'a', 'b'])},,"
                         f"{random.choice(details)}")
        ask_all(write(folder, f"hostile{number}.csv", lines), (0, 1, 3))
    hostile_starts(folder, random)
    wraps = write(folder, "wraps.csv", [f"1,,alloc,0,0,{HUGE - 4096},{HUGE},,,", f"2,,alloc,0,0,{HUGE - 1},{HUGE},,,",
                                        f"3,,alloc,0,0,4096,{HUGE},,,", "4,,free,0,0,4096,,,,"])
    ask_all(wraps, (0, 1, 3))
    ask_all(write(folder, "odd.csv", ODD), (0, 1, 3))
    many = write(folder, "streams.csv", [FAILED] + [f"{i},,use,0,{i},4096,,,,read" for i in range(5000)])
    status, out, err = soma("race", many)
    expect("more streams than can be judged", (status, "at most 4095 streams" in err), (3, True))
    ended = write(folder, "ended.csv", [FAILED] + [line for i in range(1, 5000) for line in (
        f"{i},,stream_create,0,{i},,,,,", f"{i},,sync,0,{i},,,,,", f"{i},,stream_destroy,0,{i},,,,,")])
    expect("streams that end", soma("race", ended)[0], 0)


def every_sample():
    for path in samples():
        same_as_replay(path)
        races = answer(0, "race", path)
        expect(f"{path}: races", (races["judged"], races["total"], races["races"]), (False, 0, []))
        expect(f"{path}: race says so", "Nothing to judge" in soma("race", path)[1], True)
        for question in (["stats"], ["check", "--max-peak", "1P"]):
            expect(f"soma {question[0]} {path}", soma(*question, path)[0], 0)


def main():
    os.environ.setdefault("ASAN_OPTIONS", "allocator_may_return_null=1")
    with tempfile.TemporaryDirectory() as folder:
        known_stats(folder)
        nameless(folder)
        without_allocations(folder)
        known_latencies()
        keys(folder)
        percentiles(folder)
        known_diff(folder)
        other_formats(folder)
        junit(folder)
        check_texts(folder)
        devices(folder)
        wrong(folder)
        beyond_all_addresses(folder)
        usage()
        every_sample()
        truncated(folder)
        hostile(folder)
        check_races(folder, write, answer, soma, expect)
    check_capacity()
    check_recorded()
    print(f"{failures()} failures")
    return 1 if failures() else 0


sys.exit(main())
