# SPDX-License-Identifier: Apache-2.0
"""What the subcommands say of a failure that the trace itself records: the same, whichever is asked."""

import json
import os

import questions
from questions import SOURCE
from check_capacity import MIB, ask, edge, expect, reason_of, run, trace, work

# 20 MiB in one segment, of which 5 MiB stay; then 64 MiB are asked for, which are not there.
BEFORE = ["1,,segment_alloc,0,0,0x7f0000000000,20971520,,,", "2,,alloc,0,0,0x7f0000000000,5242880,keep,,",
          "3,,alloc,0,0,0x7f0000500000,15728640,gone,,", "4,,free,0,0,0x7f0000500000,,,,"]
OOM = "5,,oom,0,0,,67108864,,,1048576"
REQUEST = {"event": 4, "requested": 64 * MIB, "count": 1, "last_event": 4, "last_requested": 64 * MIB}


def needed_by_all():
    """The request that failed is needed: for fit, whatif, oom, replay and check alike."""
    path = trace("needed.csv", *BEFORE, OOM)
    fit = ask("fit", path)[1]
    found = {row["policy"]: row["capacity"] for row in fit["policies"]}
    expect(found["pytorch"] == 84 * MIB == reason_of(path)["passes_at"], f"fit and oom: {found}")
    expect(fit["peak_live_requested"] == 20 * MIB and fit["peak_wanted_rounded"] == 69 * MIB, f"fit: {fit}")
    expect(fit["packing"]["height"] == 69 * MIB == fit["packing"]["bound"], f"packing: {fit['packing']}")
    expect(fit["recorded_oom"] == REQUEST, f"fit: {fit['recorded_oom']}")
    for row in fit["policies"]:
        expect(row["capacity"] >= 69 * MIB and row["claim"] == "least", f"fit: {row}")
        edge(path, row, 69 * MIB)
    expect("has room for the request of 64.0 MiB that failed at event 4." in run("fit", path)[1], "fit says it")


def whatif_has_room():
    path = trace("needed.csv", *BEFORE, OOM)
    answer = ask("whatif", "--set", "max_split_size_mb=32", path)[1]
    expect([row["peak_reserved"] for row in answer["rows"]] == [84 * MIB] * 2, f"whatif: {answer}")
    expect(answer["parity"] == {"recorded": 2, "reproduced": 2}, f"whatif: {answer['parity']}")
    expect("room for the request of 64.0 MiB that failed at event 4." in run("whatif", path)[1], "whatif says it")


def whatif_status():
    """A row that runs out of memory is bad news, and so for the others."""
    path = trace("needed.csv", *BEFORE, OOM)
    for wanted, options in ((1, ["-c", "83M"]), (0, ["-c", "84M"]), (1, ["-s", "capacity=83M"]), (0, [])):
        expect(run("whatif", path, *options)[0] == wanted, f"whatif {options}: exit status")


def under_a_capacity():
    """replay and check make the request under a capacity only; what was recorded is reproduced without."""
    path = trace("needed.csv", *BEFORE, OOM)
    status, replay = ask("replay", path)
    expect(status == 0 and replay["peak_reserved"] == 20 * MIB and replay["parity"]["reproduced"] == 2, f"{replay}")
    for capacity, passes in ((84 * MIB, True), (84 * MIB - 1, False)):
        status, replay = ask("replay", "-c", str(capacity), path)
        expect(status == (0 if passes else 1) and (replay["oom"] is None) == passes, f"replay: {replay['oom']}")
        expect(passes or (replay["oom"]["event"], replay["oom"]["short_by"]) == (4, 1), f"replay: {replay['oom']}")
        status, check = ask("check", "-c", str(capacity), path)
        expect(status == (0 if passes else 1) and check["recorded_oom"] == REQUEST, f"check: {check}")
        limit = check["limits"][0]
        expect((limit["measured"], limit["event"]) == (84 * MIB, 4), f"check: {limit}")
    expect("Fits in 84.0 MiB, and so does the request that failed." in run("replay", "-c", "84M", path)[1], "replay")
    expect("64.0 MiB that failed at event 4; --capacity must have room for that." in run("check", "-c", "84M", path)[1],
           "check")
    # What comes behind it lies elsewhere than recorded, which is no fault.
    path = trace("behind.csv", *BEFORE, OOM, "6,,segment_alloc,0,0,0x7f2000000000,67108864,,,",
                 "7,,alloc,0,0,0x7f2000000000,67108864,again,,", "8,,segment_alloc,0,0,0x7f3000000000,16777216,,,",
                 "9,,alloc,0,0,0x7f3000000000,16777216,more,,")
    expect(run("replay", path)[0] == 0, "behind the failure")
    status, out, _ = run("replay", "-c", "1G", path)
    expect(status == 0, f"behind the failure, under a capacity: {out}")


def unchanged_without():
    path = trace("granted.csv", *BEFORE)
    fit = ask("fit", path)[1]
    expect(fit["recorded_oom"] is None and fit["peak_wanted_rounded"] == fit["peak_live_rounded"], f"fit: {fit}")
    for command in (["fit"], ["whatif"], ["replay", "-c", "1G"], ["check", "-c", "1G"]):
        expect("failed" not in run(*command, path)[1], f"{command}: no failure is recorded")


def no_advice_below_what_there_was():
    """The replay passes in what there was: nothing is said to help, least of all less than that."""
    path = trace("cached.csv", *BEFORE[:2], "3,,segment_alloc,0,0,0x7f1000000000,67108864,,,",
                 "4,,alloc,0,0,0x7f1000000000,67108864,big,,", "5,,free,0,0,0x7f1000000000,,,,",
                 "6,,oom,0,0,,62914560,,,8388608")
    oom = reason_of(path)
    expect(oom["capacity"] == 92 * MIB and not oom["reproduced"], f"cached: {oom}")
    expect(oom["passes_at"] is None and oom["would_have_helped"] == [], f"cached: {oom}")
    out = run("oom", path)[1]
    expect("is not known: the replay passes in the 92.0 MiB that there was for this process,\n" in out, out)
    expect("with anything less" not in out and "What would have helped (" not in out, out)
    # A limit that the trace does not tell of: it is said where to tell it.
    out = run("oom", trace("room.csv", *BEFORE, "5,,oom,0,0,,67108864,,,104857600"))[1]
    expect("\nIt was another limit, such as a memory fraction; --capacity can tell it.\n" in out, out)


def process_and_device():
    """What there is for the process is not called as the size of the device is."""
    path = trace("needed.csv", *BEFORE, OOM)
    out = run("oom", path)[1]
    expect("64.0 MiB requested, 63.0 MiB short in the 21.0 MiB that there was for this process\n" in out, out)
    expect("  84.0 MiB for this process; with anything less, down to 21.0 MiB, it fails\n  " in out, out)
    expect("device of" not in out and "a capacity of" not in out, out)
    oom = reason_of(path, "-c", "100M")
    expect((oom["capacity"], oom["of_process"], oom["outside"], oom["device_size"]) ==
           (21 * MIB, True, 79 * MIB, 100 * MIB), f"device: {oom}")
    out = run("oom", path, "-c", "100M")[1]
    expect("Outside the library            79.0 MiB\n  The whole device                100 MiB\n" in out, out)
    expect("\n  84.0 MiB for this process; with anything less, down to 21.0 MiB, it fails\n"
           "    that is a device of 163 MiB, with as much outside the library; or 63.0 MiB less outside\n" in out, out)
    # Of a device that is small, others have less than what is missing.
    out = run("oom", path, "-c", "40M")[1]
    expect("    that is a device of 103 MiB, with as much outside the library\n" in out, out)
    oom = reason_of(path, "-c", "20M")
    expect((oom["capacity"], oom["of_process"], oom["device_size"]) == (20 * MIB, False, None), f"limit: {oom}")
    out = run("oom", path, "-c", "20M")[1]
    expect("short of a capacity of 20.0 MiB\n" in out and "\n  a capacity of 84.0 MiB; with" in out, out)


def lists_are_not_cut_in_silence():
    # Twelve streams with a segment of their own each, and four blocks in it; there is none for the thirteenth.
    lines = [f"{4 * s + i},,alloc,0,{s},{0x10000000 * s + 512 * i:#x},512,h{s:02},," for s in range(1, 13) for i in range(4)]
    path = trace("lists.csv", *lines, "99,,alloc,0,13,0xf00000000,512,last,,")
    options = [path, "--policy", "pytorch", "-c", "24M"]
    out = run("oom", *options)[1]
    expect(out.count("\n    and 1 more (512 B)\n") == 10, out)
    expect("\n  and 2 more (4.00 MiB, 4.00 MiB free)\n\n" in out and "\n  and 4 more (8.00 KiB)\n\n" in out, out)
    out = run("oom", *options, "-n", "1")[1]
    expect(out.count("    and 3 more (1.50 KiB)\n  and 11 more (22.0 MiB, 22.0 MiB free)\n") == 1, out)
    expect("\n  and 11 more (22.0 KiB)\n" in out, out)
    out = run("oom", *options, "-n", "0")[1]
    expect(" more (" not in out and out.count("  512 B  h12\n") == 4, out)
    oom = reason_of(*options)
    expect(len(oom["segments"]) == 12 == len(oom["holders_by_tag"]), f"{oom}")
    expect([(pin["live_blocks"], len(pin["smallest_blocks"])) for pin in oom["segments"]] == [(4, 3)] * 12, f"{oom}")
    oom = reason_of(*options, "-n", "1")
    expect(len(oom["segments"]) == len(oom["segments"][0]["smallest_blocks"]) == len(oom["holders_by_frame"]) == 1, oom)


def all_that_failed():
    """The first is explained, the others are told, and all of them must fit."""
    more = ["6,,oom,0,0,,104857600,,,1048576", "7,,alloc_failed,0,0,,0,,,", "8,,oom,0,0,,83886080,,,1048576"]
    path = trace("several.csv", *BEFORE, OOM, *more)
    oom = reason_of(path)
    told = {"event": 4, "requested": 64 * MIB, "count": 3, "last_event": 7, "last_requested": 80 * MIB}
    expect((oom["event"], oom["recorded_oom"]) == (4, told), f"several: {oom}")
    # 64 MiB, 100 MiB and 80 MiB, one after the other, beside a segment that is kept.
    expect(oom["passes_at"] == 120 * MIB, f"several: {oom['passes_at']}")
    expect(ask("replay", path)[1]["recorded_oom"] == told, "several: replay")
    out = run("oom", path)[1]
    expect("\nThis is the first of 3 failures that the trace records; the last is at event 7: 80.0 MiB requested.\n" in out, out)
    out = run("replay", path)[1]
    expect("event 4: out of memory, 64.0 MiB requested (soma oom says why).\n"
           "And 2 more, the last at event 7: 80.0 MiB requested.\n" in out, out)
    expect("for the 3 requests that failed, the first of 64.0 MiB at event 4, the last of 80.0 MiB at event 7."
           in run("fit", path)[1], "several: fit")
    # The replay fails before the recording does.
    out = run("oom", path, "-c", "10M")[1]
    expect("\nOut of memory at event 1: 5.00 MiB requested, 10.0 MiB short of a capacity of 10.0 MiB\n" in out, out)
    expect("\nThe trace itself tells of the 3 requests that failed, the first of 64.0 MiB at event 4," in out, out)
    both = trace("devices.csv", *BEFORE, "5,,oom,1,0,,1048576,,,0", OOM.replace("5,", "6,", 1), "7,,alloc_failed,0,0,,0,,,")
    expect((reason_of(both)["event"], reason_of(both)["recorded_elsewhere"]) == (4, 1), "the first device that failed")
    expect("It records 1 failure on other devices, too: --device asks for one.\n" in run("oom", both)[1], "devices")
    oom = reason_of(both, "--device", "0")
    expect((oom["event"], oom["recorded_oom"]["count"], oom["recorded_elsewhere"]) == (5, 1, 0), f"device 0: {oom}")
    out = run("oom", trace("needed.csv", *BEFORE, OOM))[1]
    expect("This is the first" not in out and "itself tells" not in out, out)


def policy_of_a_load():
    """The same as a plain replay's, but beside a backend."""
    torch = trace("granted.csv", *BEFORE)
    other = trace("plain.csv", "1,,alloc,0,1,0x1000,512,a,,", "2,,free,0,1,0x1000,,,,")
    for path, policy in ((torch, "pytorch"), (other, "cuda")):
        plain = run("replay", path)[1]
        expect(f"  policy {policy}, capacity" in plain, plain)
        status, out, err = run("replay", "--repeat", "3", path)
        expect(status == 0 and f"a model in each thread, policy {policy}, " in out, f"{policy}: {status} {out} {err}")
    out = run("replay", "--repeat", "3", "--policy", "strict", torch)[1]
    expect("a model in each thread, policy strict, " in out, out)


def profile(*sizes):
    """A trace of PyTorch's profiler: allocations, frees below 0, and as text what failed."""
    events = [{"ph": "i", "name": "[OutOfMemory]" if isinstance(size, str) else "[memory]", "tid": 7, "ts": 10 + at,
               "args": {"Device Type": 1, "Device Id": 0, "Bytes": int(size)}} for at, size in enumerate(sizes)]
    path = os.path.join(work.name, "profile.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"schemaVersion": 1, "traceEvents": events}, file)
    return path


def profiler_is_of_pytorch():
    path = profile(5 * MIB, 15 * MIB, -15 * MIB)
    status, replay = ask("replay", path)
    expect((status, replay["settings"]["policy"], replay["parity"]) == (0, "pytorch", None), f"profile: {replay}")
    # One segment for both; of the policy cuda it would be 32 MiB.
    expect(replay["peak_reserved"] == 20 * MIB, f"profile: {replay['peak_reserved']}")
    status, answer = ask("whatif", "--set", "expandable_segments=True", path)
    expect(status == 0 and answer["policy"] == "pytorch", f"profile: {answer}")
    expect("policy pytorch" in run("replay", "--repeat", "2", path)[1], "profile: a load")
    expect(ask("replay", "--policy", "cuda", path)[1]["settings"]["policy"] == "cuda", "profile: as it is asked for")
    oom = reason_of(profile(5 * MIB, 15 * MIB, -15 * MIB, str(64 * MIB)))
    expect(oom["recorded"] and oom["requested"] == 64 * MIB and oom["passes_at"] == 84 * MIB, f"profile: {oom}")


def what_is_said_can_be_used():
    # 100 MB are free, but a piece of 40 MB was split off them.
    path = trace("split.csv", "0,,segment_alloc,0,1,0x7f0000000000,100663296,,,",
                 "1,,alloc,0,1,0x7f0000000000,100000000,a,,", "2,,free,0,1,0x7f0000000000,,,,",
                 "3,,alloc,0,1,0x7f0000000000,40000000,b,,", "4,,alloc,0,1,0x7f1000000000,100000000,c,,")
    said = {r["change"]: r for r in reason_of(path, "-c", "150M")["would_have_helped"]}
    settings = [change for change in said if change.startswith("PYTORCH_CUDA_ALLOC_CONF=")]
    expect("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64" in settings, f"split: {said}")
    for change in settings:
        row = ask("whatif", "-c", "150M", "--set", change, path)[1]["rows"][1]
        expect((row["oom"], row["peak_reserved"]) == (None, said[change]["peak_reserved"]), f"split: {change}: {row}")
    expect(said["the policy soma"]["policy"] == "soma" and said[settings[0]]["policy"] is None, f"split: {said}")
    out = run("oom", path, "-c", "150M")[1]
    expect("  the policy soma: a pool of soma's, soma_pool_create(3)" in out and "the same:" not in out, out)
    expect("\n    and as much with\n      PYTORCH_CUDA_ALLOC_CONF=" in out, out)
    # cuda is a setting of PyTorch's, and a policy to others.
    found = reason_of(os.path.join(SOURCE, "examples", "tiny-full.csv"), "-c", "3.3G")["would_have_helped"]
    said = [r["change"] for r in found]
    expect("PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync" in said and "the policy cuda" not in said, f"{said}")
    path = trace("reuse.csv", "1,,alloc,0,1,0x1000,20971520,a,,", "2,,free,0,1,0x1000,,,,", "3,,alloc,0,1,0x2000,20971520,b,,")
    out = run("oom", path, "-p", "strict", "-c", "32M", "-k", "never")[1]
    expect("  the policy cuda: a pool of CUDA's, as cudaMallocAsync has (it reserves 32.0 MiB)\n" in out, out)
    expect("      the policy pytorch: PyTorch's caching allocator\n" in out, out)


def backends_of_pytorch():
    """A backend is a policy, of a row alone."""
    path = trace("backends.csv", "1,,alloc,0,1,0x1000,70000000,a,,")
    for policy in ("pytorch", "cuda"):
        rows = ask("whatif", "-p", policy, "-s", "backend:native,max_split_size_mb:64", "-s", "backend:cudaMallocAsync",
                   "-s", "backend=cudaMallocAsync,roundup_power2_divisions:1", path)[1]["rows"]
        native, cuda = (ask("replay", "-p", name, path)[1]["peak_reserved"] for name in ("pytorch", "cuda"))
        expect([row["peak_reserved"] for row in rows[1:]] == [native, cuda, cuda] and native != cuda, f"backends: {rows}")
    status, _, err = run("whatif", "-p", "cuda", "-s", "max_split_size_mb:64", path)
    expect(status == 2 and "--policy pytorch" in err, f"backends: {err}")


def check_recorded():
    what_is_said_can_be_used()
    backends_of_pytorch()
    profiler_is_of_pytorch()
    policy_of_a_load()
    all_that_failed()
    lists_are_not_cut_in_silence()
    process_and_device()
    no_advice_below_what_there_was()
    needed_by_all()
    whatif_has_room()
    whatif_status()
    under_a_capacity()
    unchanged_without()


if __name__ == "__main__":
    check_recorded()
    print(f"{questions.failures()} failures")
