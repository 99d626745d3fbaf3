#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings that nobody has seen: a small caching allocator of its own, written down
as PyTorch snapshots, and replayed.

It shares no code with soma.  Its runs have several streams, frees that wait for other
streams, private pools, segments given back, and histories that begin in mid-run.
Every address and every segment must be reproduced; of a truncated one, all that is left.

    check_simulated.py SOMA [FIRST [LAST]]
"""
import json
import os
import pickle
import subprocess
import sys
import tempfile

MIB = 1 << 20

# What is left over behind a block that was live at the start can be passed over by the
# recorded allocator without anything being allocated there: then no trace can tell how
# large it was.  No seed of the default range is such a case.
DEFAULT_SEEDS = (0, 60)


class Random:
    """The same numbers on every version of Python."""

    def __init__(self, seed):
        self.state = seed * 2 + 1

    def below(self, limit):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.state >> 33) % limit

    def chance(self, per_mille):
        return self.below(1000) < per_mille

    def choice(self, items):
        return items[self.below(len(items))]


def rounded_up(size, step):
    return (size + step - 1) // step * step


class Allocator:
    def __init__(self, random, newer=False):
        self.random = random
        self.newer = newer
        self.segments = {}
        self.live = {}
        self.pending = []
        self.history = []
        self.end = 0x7F0000000000
        self.returned = []

    def record(self, action, address, size, segment):
        entry = {"action": action, "addr": address, "size": size, "stream": segment["stream"],
                 "frames": [], "time_us": len(self.history)}
        if self.newer:
            entry["pool_id"] = segment["segment_pool_id"]
        self.history.append(entry)

    def address_for(self, size):
        for entry in self.returned:
            if entry[1] == size and self.random.chance(700):
                self.returned.remove(entry)
                return entry[0]
        address = self.end
        self.end += rounded_up(size, 2 * MIB)
        return address

    def new_segment(self, size, stream, small, pool):
        if small:
            total = 2 * MIB
        else:
            total = 20 * MIB if size < 10 * MIB else rounded_up(size, 2 * MIB)
        address = self.address_for(total)
        block = {"address": address, "size": total, "requested_size": 0, "state": "inactive", "frames": []}
        segment = {"device": 0, "address": address, "total_size": total, "stream": stream,
                   "segment_type": "small" if small else "large", "segment_pool_id": pool,
                   "is_expandable": False, "frames": [], "allocated_size": 0, "active_size": 0,
                   "requested_size": 0, "blocks": [block]}
        self.segments[address] = segment
        self.record("segment_alloc", address, total, segment)
        return segment, block

    def best_fit(self, size, stream, kind, pool):
        fits = [(block["size"], block["address"], segment, block)
                for segment in self.segments.values()
                if (segment["stream"], segment["segment_type"], segment["segment_pool_id"]) == (stream, kind, pool)
                for block in segment["blocks"] if block["state"] == "inactive" and block["size"] >= size]
        return min(fits, key=lambda fit: fit[:2])[2:] if fits else None

    def alloc(self, requested, stream, pool):
        size = rounded_up(requested, 512)
        small = size <= MIB
        found = self.best_fit(size, stream, "small" if small else "large", pool)
        segment, block = found or self.new_segment(size, stream, small, pool)
        left = block["size"] - size
        if left >= 512 if small else left > MIB:
            rest = dict(block, address=block["address"] + size, size=left, frames=[])
            segment["blocks"].insert(segment["blocks"].index(block) + 1, rest)
            block["size"] = size
        block["state"] = "active_allocated"
        block["requested_size"] = requested
        self.live[block["address"]] = (segment, block)
        self.record("alloc", block["address"], requested, segment)

    def free(self, address, deferred):
        segment, block = self.live.pop(address)
        self.record("free_requested", address, block["requested_size"], segment)
        if deferred:
            block["state"] = "active_pending_free"
            self.pending.append((segment, block))
        else:
            self.complete(segment, block)

    def complete(self, segment, block):
        self.record("free_completed", block["address"], block["requested_size"], segment)
        block["state"] = "inactive"
        blocks = segment["blocks"]
        at = blocks.index(block)
        if at + 1 < len(blocks) and blocks[at + 1]["state"] == "inactive":
            block["size"] += blocks.pop(at + 1)["size"]
        if at > 0 and blocks[at - 1]["state"] == "inactive":
            blocks[at - 1]["size"] += blocks.pop(at)["size"]

    def release_idle(self):
        for address, segment in list(self.segments.items()):
            if len(segment["blocks"]) == 1 and segment["blocks"][0]["state"] == "inactive":
                self.record("segment_free", address, segment["total_size"], segment)
                self.returned.append((address, segment["total_size"]))
                del self.segments[address]

    def snapshot(self, first):
        segments = sorted(self.segments.values(), key=lambda segment: segment["address"])
        return {"segments": segments, "device_traces": [self.history[first:]]}


def any_size(random):
    return random.choice([1 + random.below(4096), 1 + random.below(MIB), MIB + random.below(11 * MIB),
                          1 + random.below(60 * MIB)])


def simulate(seed, newer=False, whole=False):
    """Newer recordings say in every entry whose memory it is: then pools may be gone at
    the end."""
    random = Random(seed)
    allocator = Allocator(random, newer)
    private = random.chance(700 if newer else 300) and (newer or not whole)
    release = 0 if private and not newer else random.choice([0, 10, 3])
    pools = [(0, 0), (0, 1), (0, 2)] if private else [(0, 0)]
    for _ in range(random.choice([100, 600, 1500])):
        if random.chance(release):
            allocator.release_idle()
        elif allocator.pending and random.chance(200):
            allocator.complete(*allocator.pending.pop(random.below(len(allocator.pending))))
        elif len(allocator.live) < random.choice([20, 60]):
            allocator.alloc(any_size(random), random.choice([0, 0, 0, 5, 9]), random.choice(pools))
        else:
            allocator.free(random.choice(sorted(allocator.live)), random.chance(250))
    length = len(allocator.history)
    if whole:
        return allocator.snapshot(0)
    return allocator.snapshot(random.choice([0, 0, length // 3, length // 2, length - 5]))


class Replays:
    """Runs soma on bytes that it writes to a file; counts what went wrong."""

    def __init__(self, soma, path):
        self.soma = soma
        self.path = path
        self.done = self.failed = 0

    def run(self, data, *options):
        with open(self.path, "wb") as file:
            file.write(data)
        done = subprocess.run([self.soma, "replay", "--json", *options, self.path], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True)
        self.done += 1
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    def converted(self, result, *options):
        """Which of the answers are others when the file is replayed as soma's own trace."""
        trace = self.path + ".csv"
        done = subprocess.run([self.soma, "convert", self.path, trace], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True)
        if done.returncode != 0 or "segments" in done.stderr:
            return done.stderr
        done = subprocess.run([self.soma, "replay", "--json", *options, trace], stdout=subprocess.PIPE,
                              universal_newlines=True)
        os.unlink(trace)
        other = json.loads(done.stdout)
        for one in (result, other):
            del one["settings"]["trace"], one["settings"]["format"]
        return [key for key in result if result[key] != other[key]]

    def expect(self, good, what, seed, *shown):
        if not good:
            self.failed += 1
            print("seed %d, %s:" % (seed, what), *shown)


def peaks_after(history, allocs):
    """Live and reserved bytes at most, up to that many allocations of a full history."""
    live = reserved = live_peak = reserved_peak = done = 0
    for entry in history:
        if done == allocs:
            break
        if entry["action"] == "alloc":
            done += 1
            live += entry["size"]
            live_peak = max(live_peak, live)
            reserved_peak = max(reserved_peak, reserved)
        elif entry["action"] == "free_requested":
            live -= entry["size"]
        elif entry["action"] in ("segment_alloc", "segment_free"):
            reserved += entry["size"] if entry["action"] == "segment_alloc" else -entry["size"]
    return live_peak, reserved_peak


def check_whole(replays, seed, newer):
    status, result, error = replays.run(pickle.dumps(simulate(seed, newer), 4))
    good = status == 0 and result["counts"]["unknown_frees"] == 0
    replays.expect(good, "whole, newer" if newer else "whole", seed, "exit status", status, result and result["parity"], error)
    others = replays.converted(result) if result else None
    replays.expect(not others, "converted, newer" if newer else "converted", seed, others)


def check_cut(replays, seed, newer):
    """Its segments are those of the end, which is missing: they say nothing of the start."""
    snapshot = simulate(seed, newer, whole=True)
    data = pickle.dumps(snapshot, 4)
    status, result, error = replays.run(data[:len(data) * 6 // 10], "--partial")
    if result is None:
        replays.expect(False, "cut", seed, "exit status", status, error)
        return
    allocs = result["allocs"]
    got = result["peak_live_requested"], result["peak_reserved"]
    expected = peaks_after(snapshot["device_traces"][0], allocs)
    reproduced = result["parity"]["reproduced"] if allocs > 0 else 0
    good = (status == 0 and allocs > 0 and got == expected and reproduced == allocs and
            result["counts"]["start_unknown"])
    replays.expect(good, "cut", seed, "exit status", status, got, expected, result["parity"], error)


def check_limited(replays, seed):
    """Segments of the replay's own among the recorded ones: each has a place of its own."""
    data = pickle.dumps(simulate(seed), 4)
    for options in (["--capacity", "%dM" % (22 + seed * 5)], ["--complete", "sync"], ["--complete", "never"]):
        status, result, error = replays.run(data, *options)
        replays.expect(status in (0, 1) and result, " ".join(options), seed, "exit status", status, error)


def one_block(address, size, live):
    state = "active_allocated" if live else "inactive"
    block = {"address": address, "size": size, "requested_size": size, "state": state}
    return {"device": 0, "address": address, "total_size": size, "stream": 0, "blocks": [block],
            "segment_type": "small" if size == 2 * MIB else "large"}


def check_released(replays):
    """A history that begins in mid-run and ends with nothing left."""
    allocator = Allocator(Random(0))
    for size in (1000, 600, 30 * MIB):
        allocator.alloc(size, 0, (0, 0))
    first = len(allocator.history)
    for address in sorted(allocator.live):
        allocator.free(address, False)
        if address == min(allocator.segments):
            allocator.alloc(2000, 0, (0, 0))
    for address in list(allocator.live):
        allocator.free(address, False)
    allocator.release_idle()
    status, result, error = replays.run(pickle.dumps(allocator.snapshot(first), 4))
    good = (status == 0 and result["parity"] and result["parity"]["reproduced"] == 1 and
            result["peak_reserved"] == 32 * MIB and result["counts"]["start_segments"] == 2)
    replays.expect(good, "released", 0, status, result, error)


def check_refused(replays):
    """Segments that no allocator can have are the input's fault, and said to be."""
    def refused(message, segment, **block):
        segment["blocks"][0].update(block)
        snapshot = {"segments": [segment], "device_traces": [[]]}
        status, _, error = replays.run(pickle.dumps(snapshot, 4))
        replays.expect(status == 3 and message in error, "refused", 0, "exit status", status, error)

    refused('"address" is not a multiple', one_block(513, 2 * MIB, True))
    refused('"address" is not a multiple', one_block(0, 2 * MIB, True))
    refused('"address" is above 2^48', one_block((1 << 48) - MIB, 2 * MIB, True))
    refused('"total_size" is not a multiple', one_block(MIB, 2 * MIB - 1, True))
    refused('"requested_size" is 2097153, but "size" only 2097152', one_block(MIB, 2 * MIB, True),
            requested_size=2 * MIB + 1)
    refused('"requested_size" is less than "size" by 4 GiB', one_block(MIB, 8 << 30, True), requested_size=1)


def check_private(replays):
    """What a stream keeps in another pool is its own; and it is a stream even without a default pool."""
    segments = [dict(one_block(20 * MIB * (i + 1), 20 * MIB, False), segment_pool_id=(0, i)) for i in (0, 1)]
    for segment in segments:
        segment["blocks"] = [dict(segment["blocks"][0], size=10 * MIB, requested_size=10 * MIB,
                                  address=segment["address"] + at, state=state)
                             for at, state in ((0, "active_allocated"), (10 * MIB, "inactive"))]
    for segments in (segments, segments[1:]):
        snapshot = {"segments": segments, "device_traces": [[]]}
        status, result, error = replays.run(pickle.dumps(snapshot, 4))
        good = status == 0 and result["stranded_by_stream"] == 0 and result["counts"]["streams"] == 1
        replays.expect(good, "private", 0, status, result, error)
        replays.expect(not replays.converted(result), "private, converted", 0)


def check_above(replays):
    """Segments that no event tells of lie above all that events tell of, and are in use."""
    allocator = Allocator(Random(0))
    segment = {"stream": 0}
    allocator.record("segment_alloc", allocator.end, 20 * MIB, segment)
    allocator.record("alloc", allocator.end, 5 * MIB, segment)
    allocator.record("alloc", allocator.end + 20 * MIB, 1000, segment)
    snapshot = allocator.snapshot(0)
    snapshot["segments"] = [one_block(allocator.end, 20 * MIB, True),
                            one_block(allocator.end + 20 * MIB, 2 * MIB, False),
                            one_block(allocator.end + 22 * MIB, 20 * MIB, True)]
    status, result, error = replays.run(pickle.dumps(snapshot, 4), "--capacity", "22M")
    replays.expect(status == 1 and result["counts"]["failed"] == 1, "above", 0, status, error)


def check_cut_behind(replays, seed):
    """The cut is in the next device's history: this one's is whole."""
    snapshot = simulate(seed)
    entry = {"action": "alloc", "addr": 4096, "size": 1, "stream": 0, "frames": []}
    snapshot["device_traces"].append([dict(entry), dict(entry)])
    status, result, error = replays.run(pickle.dumps(snapshot, 4)[:-8], "--partial", "--device", "0")
    good = status == 0 and not result["counts"]["start_unknown"]
    replays.expect(good, "cut behind", seed, "exit status", status, result and result["parity"], error)


def check_devices(replays, seed):
    """Each device of a snapshot has its own start, also as soma's own trace."""
    first, second = simulate(seed, True), simulate(seed + 1, False)
    for segment in second["segments"]:
        segment["device"] = 1
    data = pickle.dumps({"segments": first["segments"] + second["segments"],
                         "device_traces": first["device_traces"] + second["device_traces"]}, 4)
    for device in ("0", "1"):
        status, result, error = replays.run(data, "--device", device)
        others = replays.converted(result, "--device", device) if result else error
        replays.expect(status == 0 and not others, "device " + device, seed, status, others)


def main():
    first, last = (int(text) for text in sys.argv[2:4]) if len(sys.argv) > 3 else DEFAULT_SEEDS
    handle, path = tempfile.mkstemp(suffix=".pickle", dir=".")
    os.close(handle)
    replays = Replays(sys.argv[1], path)
    try:
        check_above(replays)
        check_released(replays)
        check_private(replays)
        check_refused(replays)
        for seed in range(first, last):
            for newer in (False, True):
                check_whole(replays, seed, newer)
                check_cut(replays, seed, newer)
            check_cut_behind(replays, seed)
            if seed % 6 == 0:
                check_devices(replays, seed)
            check_limited(replays, seed)
    finally:
        os.unlink(path)
    print("%d replays, %d wrong" % (replays.done, replays.failed))
    return 1 if replays.failed else 0


if __name__ == "__main__":
    sys.exit(main())
