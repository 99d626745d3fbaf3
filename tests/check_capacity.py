# SPDX-License-Identifier: Apache-2.0
"""soma fit, whatif and oom as people call them: on hand-made traces whose answers are known, on
every sample that there is, and against each other."""

import json
import os
import pickle
import tempfile

import questions
from questions import SOURCE, HEADER, samples, write

MIB = 1 << 20
work = tempfile.TemporaryDirectory()
run = questions.soma


def expect(condition, text):
    questions.expect(text, bool(condition), True)


def ask(*arguments):
    status, out, err = run(*arguments, "--json")
    try:
        return status, json.loads(out)
    except ValueError:
        expect(False, f"{arguments}: no JSON: {out[:200]} {err[:200]}")
        return status, None


def trace(name, *lines):
    return write(work.name, name, lines)


# ---- every command over every sample ----------------------------------------------------

COMMANDS = {
    "fit": ["--capacity", "4G"],
    "whatif": ["--policy", "pytorch", "--set", "max_split_size_mb=64", "--set", "capacity=2G,garbage_collection_threshold=0.5"],
    "oom": ["--capacity", "1G"],
}


def over_samples():
    for sample in samples():
        for command, options in COMMANDS.items():
            status, out, err = run(command, *options, sample)
            expect(status in (0, 1), f"{command} {sample}: exit status {status}: {err}")
            expect(out != "", f"{command} {sample} says nothing")
        consistent(sample)


def consistent(sample):
    """What fit, replay, check, whatif and oom say of one capacity, and what convert makes of the trace."""
    replay = ask("replay", sample)[1]
    base = ask("whatif", sample)[1]["rows"][0]
    for key in ("peak_reserved", "peak_live_requested", "utilisation"):
        expect(base[key] == replay[key], f"{sample}: whatif's {key}")
    if replay["counts"]["maps"] == 0:
        expect(base["segments"] == replay["segments"] + replay["counts"]["start_segments"], f"{sample}: segments")
    fit = ask("fit", sample)[1]
    bound = fit["peak_live_requested"]
    expect(bound == replay["peak_live_requested"], f"{sample}: fit's bound")
    expect(fit["peak_live_rounded"] >= bound, f"{sample}: fit's rounded bound")
    packing = fit["packing"]
    expect(packing["height"] >= packing["bound"] >= bound, f"{sample}: the packing")
    expect(packing["height"] <= 1.03 * packing["bound"], f"{sample}: the packing's height: {packing}")
    for row in fit["policies"]:
        if row.get("capacity") is not None:
            edge(sample, row, fit["peak_live_rounded"])
    for size in (1, fit["packing"]["height"]):
        asked = ask("fit", "--capacity", str(size), sample)
        passes = [row["passes"] for row in asked[1]["policies"]]
        expect(asked[0] == (0 if any(passes) else 1), f"{sample}: fit at {size}, exit status {asked[0]}")
        for row, passed in zip(fit["policies"], passes):
            if row["claim"] == "least" and size <= row["capacity"]:
                expect(passed == (size == row["capacity"]), f"{sample}: fit of {row['policy']} at {size}")
    converted(sample)


def edge(sample, row, bound):
    """Where fit says that it just passes, it does for everyone; and a byte below for nobody."""
    policy, capacity = row["policy"], row["capacity"]
    expect(capacity >= bound, f"{sample}: {policy} in {capacity}, below what is live")
    for size, passes in ((capacity, True), (capacity - 1, False)):
        if size == 0:
            continue
        what = f"{sample}: {policy} at {size}"
        options = ["--policy", policy, "--capacity", str(size), sample]
        replay = ask("replay", "-P", *options)[1]
        expect((replay["oom"] is None) == passes, f"{what}: replay")
        expect(replay["peak_reserved"] <= size, f"{what}: replay reserves {replay['peak_reserved']}")
        tried = ask("whatif", *options)[1]["rows"][0]
        expect((tried["oom"] is None) == passes and tried["peak_reserved"] == replay["peak_reserved"], f"{what}: whatif")
        status = run("check", "-P", "--max-peak", "1P", *options)[0]
        expect(status == (0 if passes else 1), f"{what}: check, exit status {status}")
        said = ask("oom", *options)[1]["oom"]
        if passes:
            expect(said is None or said["recorded"], f"{what}: oom")
        elif not said["recorded"]:
            expect((said["event"], said["requested"]) == (replay["oom"]["event"], replay["oom"]["requested"]),
                   f"{what}: oom's event")
            expect(said["passes_at"] == capacity or row["claim"] == "local", f"{what}: passes at {said['passes_at']}")


def converted(sample):
    """What is converted has the same live bytes, also of what was there before its first event."""
    path = os.path.join(work.name, "converted.csv")
    status, _, err = run("convert", "-q", sample, path)
    expect(status == 0, f"{sample}: convert: {err}")
    again = ask("replay", "--policy", "strict", path)[1]
    plain = ask("replay", "--policy", "strict", sample)[1]
    for key in ("allocs", "frees", "peak_live_requested", "peak_reserved"):
        expect(again[key] == plain[key], f"{sample}: {key} of what convert wrote: {again[key]}, not {plain[key]}")


# ---- why memory ran out ---------------------------------------------------------------

def reason_of(path, *options):
    status, answer = ask("oom", path, *options)
    expect(status == (1 if answer["oom"] else 0), f"{path}: exit status")
    return answer["oom"]


def remedies(oom):
    return [r["change"] for r in oom["would_have_helped"]]


def causes():
    big = trace("big.csv", "1,,alloc,0,1,0x1000,4096,a,,", "2,,alloc,0,1,0x2000,8192,b,,")
    oom = reason_of(big, "--policy", "strict", "--capacity", "10240")
    expect(oom["reason"] == "truly too big" and oom["short_by"] == 2048 and oom["event"] == 1, f"too big: {oom}")
    expect(oom["passes_at"] == 12288 and remedies(oom) == [], f"too big: {oom['passes_at']} {remedies(oom)}")

    pieces = trace("pieces.csv", "1,,alloc,0,1,0x1000,512,a,,", "2,,alloc,0,1,0x2000,512,b (x.py:3),,",
                   "3,,alloc,0,1,0x3000,512,c,,", "4,,free,0,1,0x1000,,,,", "5,,free,0,1,0x3000,,,,",
                   "6,,alloc,0,1,0x4000,1024,d,,")
    oom = reason_of(pieces, "--policy", "strict", "--capacity", "1536")
    expect(oom["reason"] == "fragmentation" and oom["short_by"] == 512 and oom["passes_at"] == 2048, f"pieces: {oom}")
    expect(oom["holders_by_frame"] == [{"name": "b (x.py:3)", "bytes": 512, "blocks": 1}], f"holders: {oom}")
    expect(oom["holders_by_tag"] == [{"name": "b", "bytes": 512, "blocks": 1}], f"holders: {oom}")

    other = trace("other.csv", "1,,alloc,0,1,0x1000,512,a,,", "2,,alloc,0,2,0x2000,512,b,,")
    oom = reason_of(other, "--policy", "pytorch", "--capacity", "2M")
    expect(oom["reason"] == "stranded on other streams" and oom["short_by"] == 2 * MIB, f"stranded: {oom}")
    expect("the policy strict" in remedies(oom), f"stranded: a shared pool would help: {remedies(oom)}")
    expect(oom["passes_at"] == 4 * MIB, f"stranded: {oom['passes_at']}")
    expect(oom["segments"][0]["smallest_blocks"] == [{"ptr": "0x1000", "size": 512, "holder": "a"}],
           f"pins: {oom['segments']}")

    late = trace("late.csv", "1,,alloc,0,1,0x1000,1024,a,,", "2,,free,0,1,0x1000,,,,", "3,,alloc,0,1,0x2000,1024,b,,")
    oom = reason_of(late, "--policy", "strict", "--capacity", "1K", "--complete", "never")
    expect(oom["reason"] == "frees that have not executed", f"pending: {oom}")
    expect("waiting until frees have executed" in remedies(oom), f"pending: {remedies(oom)}")

    one = trace("one.csv", "1,,alloc,0,1,0x1000,1000,a,,")
    oom = reason_of(one, "--policy", "cuda", "--capacity", "16M")
    expect(oom["reason"].startswith("the smallest segment") and oom["short_by"] == 16 * MIB, f"segment: {oom}")
    expect(oom["passes_at"] == 32 * MIB, f"segment: {oom['passes_at']}")

    round_ = trace("round.csv", "1,,alloc,0,1,0x1000,513,a,,", "2,,alloc,0,1,0x2000,100,b,,")
    oom = reason_of(round_, "--policy", "strict", "--capacity", "1K")
    expect(oom["reason"] == "rounding" and oom["short_by"] == 512, f"rounding: {oom}")

    # 100 MB are free, but a piece of 40 MB was split off them; max_split_size_mb prevents it.
    split = trace("split.csv", "1,,alloc,0,1,0x1000000,100000000,a,,", "2,,free,0,1,0x1000000,,,,",
                  "3,,alloc,0,1,0x2000000,40000000,b,,", "4,,alloc,0,1,0x10000000,100000000,c,,")
    oom = reason_of(split, "--policy", "pytorch", "--capacity", "150M")
    expect("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64" in remedies(oom), f"split: {remedies(oom)}")
    for change in remedies(oom):
        if "=" in change:
            row = ask("whatif", "--policy", "pytorch", "--capacity", "150M", "--set", change, split)[1]["rows"][1]
            expect(row["oom"] is None, f"split: {change} is said to help")
    expect(oom["passes_at"] == 192 * MIB, f"split: {oom['passes_at']}")

    passes = reason_of(split, "--policy", "pytorch", "--capacity", "192M")
    expect(passes is None, "split: fits where it is said to")


def recorded():
    """Failures that the trace itself tells of."""
    lines = ["1,,segment_alloc,0,0,0x7f0000000000,20971520,,,", "2,,alloc,0,0,0x7f0000000000,5242880,keep,,",
             "3,,alloc,0,0,0x7f0000500000,15728640,gone,,", "4,,free,0,0,0x7f0000500000,,,,"]
    path = trace("oom1.csv", *lines, "5,,oom,0,0,,67108864,,,1048576")
    oom = reason_of(path)
    expect(oom["recorded"] and oom["event"] == 4 and oom["requested"] == 64 * MIB, f"recorded: {oom}")
    expect(oom["device_free"] == MIB and oom["reserved"] == 20 * MIB and oom["capacity"] == 21 * MIB, f"recorded: {oom}")
    expect(oom["reason"] == "truly too big" and oom["short_by"] == 63 * MIB, f"recorded: {oom}")
    expect(oom["reproduced"] and oom["passes_at"] == 84 * MIB, f"recorded: {oom}")
    # The same with a device of 100 MiB: others have 79 of them, and without these it fits.
    oom = reason_of(path, "--capacity", "100M")
    expect(oom["reason"] == "outside the library" and oom["outside"] == 79 * MIB, f"outside: {oom}")

    # What is cached would do: the recorded allocator did not release it.
    path = trace("oom2.csv", *lines[:2], "3,,segment_alloc,0,0,0x7f1000000000,67108864,,,",
                 "4,,alloc,0,0,0x7f1000000000,67108864,big,,", "5,,free,0,0,0x7f1000000000,,,,",
                 "6,,oom,0,0,,73400320,,,8388608")
    oom = reason_of(path)
    expect(oom["reason"] == "cached but not released" and oom["idle"] == 64 * MIB, f"cached: {oom}")
    expect(oom["short_by"] == 62 * MIB, f"cached: {oom}")
    expect(not oom["reproduced"], "cached: a model that releases passes")

    # 16 MiB free beside what is kept, in one segment: no whole 20 MiB.
    path = trace("oom3.csv", *lines, "5,,oom,0,0,,18874368,,,4194304")
    oom = reason_of(path)
    expect(oom["reason"] == "fragmentation", f"fragmentation: {oom}")
    expect(oom["segments"][0]["free"] == 15 * MIB and oom["segments"][0]["live_blocks"] == 1, f"pins: {oom['segments']}")

    path = trace("failed.csv", "1,,alloc,0,1,0x1000,1000,a,,", "2,,alloc_failed,0,1,,5000,,,")
    oom = reason_of(path)
    expect(oom["recorded"] and oom["event"] == 1 and oom["capacity"] is None, f"alloc_failed: {oom}")

    # Under a capacity it is tried: it passes where there is room, and fails where there is none.
    oom = reason_of(path, "--policy", "pytorch", "--capacity", "2M")
    expect(oom["capacity"] == 2 * MIB and not oom["reproduced"], f"alloc_failed: {oom}")
    path = trace("failed2.csv", *lines[:2], "5,,alloc_failed,0,0,,67108864,,,")
    oom = reason_of(path, "--policy", "pytorch", "--capacity", "30M")
    expect(oom["recorded"] and oom["capacity"] == 30 * MIB and oom["short_by"] == 54 * MIB, f"alloc_failed: {oom}")
    expect(oom["reproduced"] and oom["passes_at"] == 84 * MIB, f"alloc_failed: {oom}")

    # Enough was free, so it was a limit that the trace does not tell of; --capacity tells it.
    path = trace("room.csv", *lines, "5,,oom,0,0,,67108864,,,104857600")
    oom = reason_of(path)
    expect(oom["reason"] == "there was room" and oom["short_by"] == 0, f"room: {oom}")
    expect(oom["capacity"] == 120 * MIB and not oom["reproduced"], f"room: {oom}")
    expect(reason_of(path, "--capacity", "500M")["reason"] == "there was room", "room: on a larger device")
    oom = reason_of(path, "--capacity", "30M")
    expect(oom["capacity"] == 30 * MIB and oom["short_by"] == 54 * MIB and oom["outside"] == 0, f"room: {oom}")
    expect(oom["reason"] == "truly too big" and oom["reproduced"] and oom["passes_at"] == 84 * MIB, f"room: {oom}")

    none = trace("none.csv", "1,,alloc,0,1,0x1000,1000,a,,")
    expect(reason_of(none) is None, "nothing failed")


def addresses():
    """Those of segments and of their blocks are of one kind: the recording's, where it has any."""
    def pins(path, *options):
        oom = reason_of(path, *options)
        return oom["addresses"], [(pin["segment"], [block["ptr"] for block in pin["smallest_blocks"]])
                                  for pin in oom["segments"]]

    segment = "1,,segment_alloc,0,0,0x7f0000000000,20971520,,,"
    lines = [segment, "2,,alloc,0,0,0x7f0000000000,5242880,keep,,", "3,,oom,0,0,,67108864,,,1048576"]
    here = trace("here.csv", *lines)
    expect(pins(here) == ("recorded", [("0x7f0000000000", ["0x7f0000000000"])]), f"as recorded: {pins(here)}")
    # The replay's own segments are nowhere in the recording, and neither is one whose block lies elsewhere there.
    got = pins(here, "--policy", "cuda")
    expect(got == ("recorded", [(None, ["0x7f0000000000"])]), f"another policy: {got}")
    got = pins(trace("elsewhere.csv", segment, "2,,alloc,0,0,0x7f0000600000,5242880,keep,,", lines[2]))
    expect(got == ("recorded", [(None, ["0x7f0000600000"])]), f"a block that lies elsewhere: {got}")
    out = run("oom", here, "--policy", "cuda")[1]
    expect("; addresses as recorded\n  (the replay's)   " in out, f"text: {out}")
    # What a format without addresses is given ones for is the model's.
    path = os.path.join(work.name, "placement.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.write("id,lower,upper,size\n0,0,9,20971520\n1,1,9,20971520\n")
    got = pins(path, "--policy", "cuda", "--capacity", "32M")
    expect(got == ("model", [("0x100000000000", ["0x100000000000"])]), f"placement: {got}")
    expect("; addresses in the model\n" in run("oom", path, "--policy", "cuda", "--capacity", "32M")[1], "placement")


def snapshot_oom():
    """A PyTorch snapshot with an event of its own."""
    frames = [{"name": "train", "filename": "train.py", "line": 7}]
    entry = lambda action, addr, size, **more: dict(action=action, addr=addr, size=size, stream=0, frames=frames,
                                                    time_us=1, **more)
    base = 0x7F0000000000
    events = [entry("segment_alloc", base, 20 * MIB), entry("alloc", base, 5 * MIB)]
    oom = entry("oom", 0, 64 * MIB, device_free=2 * MIB)
    del oom["addr"]
    events.append(oom)
    segment = dict(device=0, address=base, total_size=20 * MIB, allocated_size=5 * MIB, active_size=5 * MIB,
                   requested_size=5 * MIB, stream=0, segment_type="large", segment_pool_id=(0, 0),
                   is_expandable=False, frames=[], blocks=[
                       dict(address=base, size=5 * MIB, requested_size=5 * MIB, state="active_allocated", frames=frames),
                       dict(address=base + 5 * MIB, size=15 * MIB, requested_size=0, state="inactive", frames=[])])
    path = os.path.join(work.name, "oom.pickle")
    with open(path, "wb") as out:
        pickle.dump(dict(segments=[segment], device_traces=[events], allocator_settings={}, external_annotations=[]),
                    out, protocol=4)
    oom = reason_of(path)
    expect(oom and oom["recorded"] and oom["requested"] == 64 * MIB and oom["device_free"] == 2 * MIB, f"snapshot: {oom}")
    expect(oom["capacity"] == 22 * MIB and oom["short_by"] == 62 * MIB and oom["passes_at"] == 84 * MIB, f"snapshot: {oom}")
    expect(oom["holders_by_tag"][0]["name"] == "train", f"snapshot: {oom['holders_by_tag']}")
    segments_from_before(segment, entry("alloc", base, 5 * MIB), entry("free_completed", base, 5 * MIB))


def segments_from_before(segment, alloc, free):
    """A segment that is there when the trace begins counts in every row of whatif, as one that is made later does."""
    path = os.path.join(work.name, "before.pickle")
    with open(path, "wb") as out:
        pickle.dump(dict(segments=[segment], device_traces=[[alloc, free, dict(alloc)]], allocator_settings={},
                         external_annotations=[]), out, protocol=4)
    answer = ask("whatif", "--set", "max_split_size_mb=64", "--set", "expandable_segments=True", path)[1]
    rows = [(row["segments"], row["segments_at_start"]) for row in answer["rows"]]
    expect(rows[0] == (1, 1) and rows[1][0] >= 1 and rows[2][0] >= 1, f"segments from before: {rows}")
    out = run("whatif", path)[1]
    expect("\n1 segment is held when the trace begins, and counted.\n" in out, out)


# ---- the others -------------------------------------------------------------------------

def settings():
    path = trace("settings.csv", "1,,alloc,0,1,0x1000000,70000000,a,,")
    status, answer = ask("whatif", "--policy", "pytorch", "--set", "roundup_power2_divisions=[32:2,64:2,>:1]", "--set",
                         "max_split_size_mb=32", path)
    rows = answer["rows"]
    expect(status == 0 and rows[1]["peak_reserved"] == 96 * MIB and rows[2]["peak_reserved"] == 68 * MIB,
           f"whatif: {rows}")
    status, answer = ask("whatif", "--policy", "cuda", "--set", "capacity=1M", path)
    expect(answer["rows"][1]["oom"]["event"] == 0, f"whatif capacity: {answer}")
    status, out, _ = run("whatif", path)
    expect("records no addresses of this policy" in out, f"whatif: {out}")
    example = os.path.join(SOURCE, "examples", "tiny-full.csv")
    status, out, _ = run("whatif", example)
    expect("Baseline: 36 of 36 recorded addresses reproduced." in out, f"whatif: {out}")


def usage():
    path = trace("usage.csv", "1,,alloc,0,1,0x1000,1,a,,")
    for arguments, text in (
        (["whatif", "--set", "max_split=1", path], "unknown setting 'max_split'"),
        (["whatif", "--policy", "cuda", "--set", "max_split_size_mb=64", path], "the policy pytorch"),
        (["fit"], "expected a trace"),
        (["fit", "--capacity", "1E", path], "--capacity"),
        (["fit", "--device", "7", path], "no device 7"),
    ):
        status, out, err = run(*arguments)
        expect(status == 2 and text in err and out == "", f"{arguments}: {status} {err}")
    for command, options in COMMANDS.items():
        expect(run(command, *options, "/no/such/file")[0] == 3, f"{command}: no file")


def sizes_beyond_rounding():
    path = trace("beyond.csv", "1,,alloc,0,0,0x1000,18446744073709551615,,,", "2,,alloc,0,0,0x100000000,512,,,")
    status, out, err = run("fit", path)
    expect(status == 0, f"fit of a size that cannot be rounded: exit status {status}: {err}")
    expect("too many blocks, or too large" in out, f"a packing below what is live: {out}")


ODD = [
    "1,,alloc,0,1,0xffffffffffffffff,18446744073709551615,a,,", "2,,free,0,1,0xffffffffffffffff,,,,deferred",
    "3,,free_completed,0,1,0xffffffffffffffff,,,,", "4,,use,0,18446744073709551615,0xfffffffffffffff0,,,,write",
    "5,,wait,0,1,0x5,,,,", "6,,record,0,1,0x5,,,,", "7,,sync,0,1,,,,,device", "8,,oom,0,1,,18446744073709551615,,,9",
    "9,,oom,0,1,,1,,,99999999999999999999999", "10,,alloc,0,1,0x0,0,a,,", "11,,stream_destroy,0,1,,,,,",
    "12,,stream_destroy,0,0,,,,,", "13,,alloc,0,1,0x1,1,b,,", "14,,alloc,0,1,0x1,281474976710656,b,,",
    "15,,segment_free,0,1,0x1,1,,,", "16,,trim,0,1,,5,,,", "17,,alloc_failed,0,1,,18446744073709551615,,,",
]


def hostile():
    """Damaged and odd input: an answer or an error, never a crash."""
    example = open(os.path.join(SOURCE, "examples", "tiny-full.csv"), "rb").read()
    cases = {"empty.csv": b"", "header.csv": HEADER.encode(), "cut.csv": example[:-7],
             "binary.csv": bytes(range(256)) * 8}
    cases["odd.csv"] = (HEADER + "\n".join(ODD) + "\n").encode()
    for name, data in cases.items():
        path = os.path.join(work.name, name)
        with open(path, "wb") as out:
            out.write(data)
        for command, options in COMMANDS.items():
            status, _, err = run(command, *options, path)
            expect(status != 2, f"{command} {name}: {err}")
            expect((status == 3) == (name in ("empty.csv", "header.csv", "binary.csv")), f"{command} {name}: {status} {err}")
        run("oom", path)


def oom_text():
    """What is equal stands once: holders by frame and by tag, and settings that come to the same."""
    example = os.path.join(SOURCE, "examples", "tiny-full.csv")
    status, out, _ = run("oom", "-c", "3.3G", example)
    found = ask("oom", "-c", "3.3G", example)[1]["oom"]
    expect(status == 1, f"oom: status {status}")
    expect(out.count("\nBiggest holders then\n") == 1 and "by tag" not in out, out)
    expect("a capacity of 3.52 GiB (3781165056 bytes); with anything less, down to 3.30 GiB, it fails" in out, out)
    shown = out[out.index("What would"):]
    expect(shown.count("(it reserves ") == len({r["peak_reserved"] for r in found["would_have_helped"]}), out)
    expect(len(found["would_have_helped"]) > shown.count("(it reserves "), "no settings come to the same")
    for remedy in found["would_have_helped"]:
        expect(shown.count(remedy["change"]) >= 1, f"{remedy['change']} is missing: {out}")
    expect(max(map(len, out.splitlines()[1:])) <= 95, out)
    frames = trace("frames.csv", "1,,alloc,0,0,0x1000,4096,f (x.py:1),,", "2,,alloc,0,0,0x3000,4096,f (x.py:2),,",
                   "3,,alloc,0,0,0x5000,90000000,g,,")
    out = run("oom", "-c", "40M", frames)[1]
    expect("\nBiggest holders then, by frame\n" in out and "\nBiggest holders then, by tag\n" in out, out)


def needed_later():
    """What is live later than the failure and above the capacity: no setting is tried against it."""
    lines = ["1,,alloc,0,1,0x1000,512,a,,", "2,,alloc,0,1,0x2000,512,b,,", "3,,alloc,0,1,0x3000,512,c,,",
             "4,,free,0,1,0x1000,,,,", "5,,free,0,1,0x3000,,,,", "6,,alloc,0,1,0x4000,1024,d,,"]
    options = ["--policy", "strict", "--capacity", "1536"]
    path = trace("later.csv", *lines, "7,,alloc,0,1,0x5000,1000,e,,")
    oom = reason_of(path, *options)
    expect(oom["reason"] == "fragmentation" and oom["event"] == 5, f"later: {oom}")
    expect(oom["needs_later"] == {"event": 6, "live_rounded": 2560} and remedies(oom) == [], f"later: {oom}")
    out = run("oom", path, *options)[1]
    expect("Reason: fragmentation\nLater, at event 6, the trace needs 2.50 KiB live,\n"
           "which is more than the capacity, whatever the allocator.\n\n" in out, out)
    expect("that were tried" not in out, out)
    # 1537 bytes as requested, of which 1536 are enough for nobody, and 1537 for nobody who rounds.
    path = trace("rounded.csv", *lines, "7,,free,0,1,0x4000,,,,", "8,,alloc,0,1,0x5000,1025,e,,")
    for capacity, text in (("1536", "needs 2.00 KiB live,\n"), ("1700", "live, each block rounded up as all policies do,\n")):
        out = run("oom", path, "--policy", "strict", "--capacity", capacity)[1]
        expect(text in out, f"rounded at {capacity}: {out}")
    # The highest is at the failure, or before it: nothing of later.
    path = trace("now.csv", *lines)
    oom = reason_of(path, *options)
    expect(oom["needs_later"] is None, f"now: {oom}")
    out = run("oom", path, *options)[1]
    expect("Later" not in out and "settings and policies that were tried" in out, out)
    path = trace("before.csv", "1,,alloc,0,0,0x1000,8388608,a,,", "2,,free,0,0,0x1000,,,,",
                 "3,,oom,0,0,,6291456,,,0")
    oom = reason_of(path, "--policy", "pytorch", "--capacity", "4M")
    expect(not oom["recorded"] or oom["needs_later"] is None, f"before: {oom}")


def oom_names_bytes():
    """Nothing live: no heading of holders; two sizes that look alike have their bytes."""
    path = trace("alike.csv", "1,,alloc,0,0,0x1000,4294967296,a,,")
    out = run("oom", path, "--policy", "strict", "--capacity", "4294967295")[1]
    expect("Biggest holders" not in out, out)
    expect("a capacity of 4.00 GiB; with anything less, down to 4.00 GiB (4294967295 bytes), it fails" in out, out)


def packings():
    """What is beside the packing is in columns, and what is below it is explained; strict never is."""
    path = trace("before.csv", ",,segment_alloc,0,1,0x200000,67108864,,,start",
                 ",,alloc,0,1,0x200000,67108864,w,,start;pending", "1,,alloc,0,1,0x8000000,67108864,a,,")
    out, fit = run("fit", path)[1], ask("fit", path)[1]
    expect((fit["peak_live_rounded"], fit["packing"]["bound"], fit["packing"]["height"]) ==
           (64 * MIB, 128 * MIB, 128 * MIB), f"a free that has not completed: {fit}")
    expect([row["capacity"] for row in fit["policies"]] == [128 * MIB, 64 * MIB, 128 * MIB, 64 * MIB],
           f"reuse before completion: {fit}")
    expect("\n  Policy cuda is below it: a stream uses what it freed before" in out, out)
    expect("strict is below" not in out and "pytorch is below" not in out, out)
    path = os.path.join(work.name, "two.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.write("id,lower,upper,size\na,0,3,1\nb,1,4,1\n")
    rows = [line for line in run("fit", path)[1].splitlines() if line.startswith("  Policy")]
    expect([row[55:67] for row in rows] == ["     512 x  ", " 1.7e+07 x  ", " 1048576 x  ", " 1048576 x  "],
           f"the columns hold: {rows}")
    path = os.path.join(os.environ.get("SOMA_TEST_TRACES", ""), "dsa", "resnet50.csv")
    if not os.path.exists(path):
        return
    out, fit = run("fit", path)[1], ask("fit", path)[1]
    strict = fit["policies"][0]["capacity"]
    expect((fit["packing"]["height"], fit["packing"]["policy"]) == (strict, "strict"), f"as strict: {fit}")
    expect(fit["packing"]["searched"] > strict, f"what the search found: {fit}")
    expect("\n  Policy soma is below it: pages are moved" in out, out)


def check_capacity():
    packings()
    oom_text()
    needed_later()
    oom_names_bytes()
    causes()
    recorded()
    addresses()
    snapshot_oom()
    settings()
    usage()
    hostile()
    sizes_beyond_rounding()
    over_samples()
