#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings with expandable segments, simulated: the rules of PyTorch's caching
allocator, written down naively, with addresses and memory of a device that is small
enough to run out of both.

It shares no code with soma.  Every address and every mapping must be reproduced, with
private pools (expandable or not), frees that wait, memory given back for want of room or
by request, failed allocations, and histories that begin in mid-run.

    check_expandable.py SOMA [FIRST [LAST]]
"""
import json
import os
import pickle
import subprocess
import sys
import tempfile

from check_simulated import MIB, Random, any_size, rounded_up

# A range of addresses is 1 1/8 times as large as the device's memory, and how large that is,
# no recording tells: where the end of a range is near, the rules look at it.  No seed of the
# default range is such a case.
DEFAULT_SEEDS = (0, 80)


class Block:
    def __init__(self, segment, address, size, state):
        self.segment = segment
        self.address = address
        self.size = size
        self.state = state
        self.requested = 0


class Segment:
    def __init__(self, key, base, size, unit):
        self.key = key  # (stream, small, pool)
        self.base = base
        self.unit = unit  # 0: not expandable
        self.blocks = [Block(self, base, size, "unmapped" if unit else "free")]

    def before(self, block):
        at = self.blocks.index(block)
        return self.blocks[at - 1] if at > 0 else None

    def behind(self, block):
        at = self.blocks.index(block) + 1
        return self.blocks[at] if at < len(self.blocks) else None

    def split(self, block, size):
        """The front keeps `size`."""
        if block.size > size:
            rest = Block(self, block.address + size, block.size - size, block.state)
            self.blocks.insert(self.blocks.index(block) + 1, rest)
            block.size = size

    def merge(self, block):
        behind, before = self.behind(block), self.before(block)
        if behind and behind.state == block.state:
            block.size += behind.size
            self.blocks.remove(behind)
        if before and before.state == block.state:
            before.size += block.size
            self.blocks.remove(block)
            return before
        return block


class Allocator:
    def __init__(self, random, memory, newer, private_expand):
        self.random = random
        self.memory = memory
        self.newer = newer
        self.private_expand = private_expand
        self.segments = []
        self.live = {}
        self.pending = []
        self.history = []
        self.mapped = 0
        self.end = 0x7F0000000000 if random.chance(500) else 0x0A0000000000

    def record(self, action, address, size, key):
        entry = {"action": action, "addr": address, "size": size, "stream": key[0], "frames": [],
                 "time_us": len(self.history)}
        if action == "oom":
            entry["device_free"] = entry.pop("addr")
        if self.newer:
            entry["pool_id"] = key[2]
        self.history.append(entry)

    def addresses(self, size):
        """The driver's choice: never where something is."""
        if self.random.chance(500):
            self.end += rounded_up(size, 2 * MIB) + 2 * MIB * self.random.below(40)
            return self.end - rounded_up(size, 2 * MIB)
        return self.lower(size)

    def lower(self, size):
        used = sorted((s.base, s.base + sum(b.size for b in s.blocks)) for s in self.segments)
        floor = (used[0][0] if used else self.end) - rounded_up(size, 2 * MIB) - 2 * MIB * self.random.below(9)
        return floor

    def of(self, key, state):
        return [b for s in self.segments if s.key == key for b in s.blocks if b.state == state]

    # ---- finding

    def best_fit(self, key, size):
        def extended(block):
            behind = block.segment.behind(block)
            return block.size + (behind.size if behind and behind.state == "unmapped" else 0)

        fits = sorted((b for b in self.of(key, "free") if b.size >= size), key=lambda b: (b.size, b.address))
        if not fits:
            return None
        at = 0
        while fits[at].segment.unit and at + 1 < len(fits) and extended(fits[at + 1]) < extended(fits[at]):
            at += 1
        return fits[at]

    def space(self, key, size):
        for block in sorted(self.of(key, "unmapped"), key=lambda b: b.address):
            segment = block.segment
            before = segment.before(block)
            first = before if before and before.state == "free" else block
            total, at = 0, segment.blocks.index(first)
            while total < size and at < len(segment.blocks) and segment.blocks[at].state in ("free", "unmapped"):
                total += segment.blocks[at].size
                at += 1
            if total >= size:
                return first
        unit = (2 if key[1] else 20) * MIB
        length = rounded_up(self.memory + self.memory // 8, unit)
        segment = Segment(key, self.addresses(length), length, unit)
        self.segments.append(segment)
        return segment.blocks[0]

    def map(self, block, size):
        segment = block.segment
        size = rounded_up(size, segment.unit)
        if self.mapped + size > self.memory:
            return None
        self.mapped += size
        segment.split(block, size)
        block.state = "free"
        address = block.address
        block = segment.merge(block)
        self.record("segment_map", address, size, segment.key)
        return block

    def grow(self, key, size):
        if key[2] != (0, 0) and not self.private_expand:
            total = 2 * MIB if key[1] else 20 * MIB if size < 10 * MIB else rounded_up(size, 2 * MIB)
            if self.mapped + total > self.memory:
                return None
            self.mapped += total
            segment = Segment(key, self.addresses(total), total, 0)
            self.segments.append(segment)
            self.record("segment_alloc", segment.base, total, key)
            return segment.blocks[0]
        block = self.space(key, size)
        if block.state == "unmapped":
            block = self.map(block, min(size, block.size))
        while block and block.size < size:
            behind = block.segment.behind(block)
            block = self.map(behind, min(size - block.size, behind.size))
        return block

    # ---- what programs call

    def alloc(self, requested, stream, pool):
        size = rounded_up(requested, 512)
        key = (stream, size <= MIB, pool)
        block = self.best_fit(key, size) or self.grow(key, size)
        if not block:
            while self.pending:
                self.complete(self.pending.pop(0))
            self.release()
            block = self.grow(key, size)
        if not block:
            self.record("oom", self.memory - self.mapped, size, key)
            return
        block.segment.split(block, size)
        block.state, block.requested = "live", requested
        self.live[block.address] = block
        self.record("alloc", block.address, requested, key)

    def free(self, address, deferred):
        block = self.live.pop(address)
        self.record("free_requested", address, block.requested, block.segment.key)
        if deferred:
            block.state = "pending"
            self.pending.append(block)
        else:
            self.complete(block)

    def complete(self, block):
        self.record("free_completed", block.address, block.requested, block.segment.key)
        block.state = "free"
        block.segment.merge(block)

    def release(self):
        for small in (False, True):
            free = [b for s in self.segments if s.key[1] == small for b in s.blocks if b.state == "free"]
            if not self.random.chance(800):  # a pool of a graph that is in use keeps what it has
                free = [b for b in free if b.segment.key[2] == (0, 0)]
            for block in sorted(free, key=lambda b: (b.segment.key[0], b.size, b.address)):
                self.release_block(block)

    def release_block(self, block):
        segment = block.segment
        if not segment.unit:
            if len(segment.blocks) == 1:
                self.mapped -= block.size
                self.segments.remove(segment)
                self.record("segment_free", segment.base, block.size, segment.key)
            return
        begin = segment.base + rounded_up(block.address - segment.base, segment.unit)
        end = segment.base + (block.address + block.size - segment.base) // segment.unit * segment.unit
        if begin >= end:
            return
        if begin > block.address:
            segment.split(block, begin - block.address)
            block = segment.behind(block)
        segment.split(block, end - begin)
        block.state = "unmapped"
        self.mapped -= end - begin
        segment.merge(block)
        self.record("segment_unmap", begin, end - begin, segment.key)
        if len(segment.blocks) == 1:
            self.segments.remove(segment)

    # ---- the snapshot

    def snapshot(self, first):
        states = {"live": "active_allocated", "pending": "active_pending_free", "free": "inactive"}
        found = []
        for segment in self.segments:
            run = []
            for block in segment.blocks + [None]:
                if block and block.state != "unmapped":
                    run.append(block)
                elif run:
                    found.append(self.describe(segment, run, states))
                    run = []
        return {"segments": sorted(found, key=lambda s: s["address"]), "device_traces": [self.history[first:]]}

    @staticmethod
    def describe(segment, run, states):
        return {"device": 0, "address": run[0].address, "total_size": sum(b.size for b in run),
                "stream": segment.key[0], "segment_type": "small" if segment.key[1] else "large",
                "segment_pool_id": segment.key[2], "is_expandable": segment.unit != 0, "frames": [],
                "blocks": [{"address": b.address, "size": b.size, "state": states[b.state],
                            "requested_size": b.requested if b.state != "free" else 0, "frames": []}
                           for b in run]}


def simulate(seed):
    random = Random(seed + 1000003)
    newer = random.chance(500)
    memory = random.choice([400 * MIB, 1 << 30, 1 << 30, 8 << 30])
    allocator = Allocator(random, memory, newer, newer and random.chance(500))
    private = newer and random.chance(500)
    pools = [(0, 0), (0, 0), (0, 1)] if private else [(0, 0)]
    release = random.choice([0, 0, 4, 15])
    most = random.choice([15, 50, 120])
    for _ in range(random.choice([100, 500, 1200])):
        if random.chance(release):
            allocator.release()
        elif allocator.pending and random.chance(200):
            allocator.complete(allocator.pending.pop(random.below(len(allocator.pending))))
        elif len(allocator.live) < random.below(most) + 1:
            allocator.alloc(any_size(random), random.choice([0, 0, 0, 5]), random.choice(pools))
        else:
            allocator.free(random.choice(sorted(allocator.live)), random.chance(250))
    length = len(allocator.history)
    first = random.choice([0, 0, 0, length // 3, length // 2])
    return allocator, allocator.snapshot(first), first


def peak_reserved(history):
    reserved = peak = 0
    for entry in history:
        sign = {"segment_map": 1, "segment_alloc": 1, "segment_unmap": -1, "segment_free": -1}.get(entry["action"], 0)
        reserved += sign * entry["size"]
        peak = max(peak, reserved)
    return peak


def replay(soma, path, snapshot, *options):
    with open(path, "wb") as file:
        pickle.dump(snapshot, file, protocol=4)
    done = subprocess.run([soma, "replay", "--json", *options, path], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def as_soma_trace(soma, path, report):
    """What differs when it is replayed as soma's own trace, also from mid-run; None: nothing."""
    done = subprocess.run([soma, "convert", "--quiet", path, path + ".csv"], stderr=subprocess.PIPE)
    if done.returncode != 0:
        return done.stderr
    done = subprocess.run([soma, "replay", "--json", path + ".csv"], stdout=subprocess.PIPE)
    other = json.loads(done.stdout)
    for one in (report, other):
        del one["settings"]["trace"], one["settings"]["format"]
    return None if other == report else [key for key in report if report[key] != other[key]]


def out_of_memory(soma, path, allocator):
    """What soma oom gets wrong of the first failure; None: nothing."""
    done = subprocess.run([soma, "oom", "--json", path], stdout=subprocess.PIPE)
    oom = json.loads(done.stdout)["oom"]
    if oom["capacity"] != allocator.memory or not oom["reproduced"] or oom["short_by"] == 0:
        return {key: oom[key] for key in ("event", "capacity", "short_by", "reproduced", "reason")}
    return None


def check(seed, soma, path):
    """What is wrong with the replay of one; None: nothing."""
    allocator, snapshot, first = simulate(seed)
    entries = snapshot["device_traces"][0]
    if not any("is_expandable" in s and s["is_expandable"] for s in snapshot["segments"]) and \
            not any(e["action"] in ("segment_map", "segment_unmap") for e in entries):
        return None
    status, report, errors = replay(soma, path, snapshot)
    if report is None or errors:
        return "status %d: %s" % (status, errors)
    parity = report["parity"]
    allocs = sum(e["action"] == "alloc" for e in entries)
    grown = sum(e["action"] in ("segment_map", "segment_alloc") for e in entries)
    if allocs == 0:
        return None
    if (parity["recorded"], parity["reproduced"]) != (allocs, allocs):
        return "addresses: %s of %d" % (parity, allocs)
    if (parity["segments_recorded"], parity["segments_reproduced"]) != (grown, grown):
        return "segments: %s of %d" % (parity, grown)
    if first == 0 and report["peak_reserved"] != peak_reserved(entries):
        return "reserved: %d, expected %d" % (report["peak_reserved"], peak_reserved(entries))
    if not report["settings"]["expandable_segments"] or status != 0:
        return "exit status %d, settings %s" % (status, report["settings"])
    wrong = out_of_memory(soma, path, allocator) if any(e["action"] == "oom" for e in entries) else None
    if wrong:
        return "out of memory: %s, expected a device of %d" % (wrong, allocator.memory)
    difference = as_soma_trace(soma, path, report)
    return "as a soma trace: %s" % difference if difference else None


def main():
    soma = sys.argv[1]
    first = int(sys.argv[2]) if len(sys.argv) > 2 else DEFAULT_SEEDS[0]
    last = int(sys.argv[3]) if len(sys.argv) > 3 else DEFAULT_SEEDS[1]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, last):
            problem = check(seed, soma, os.path.join(folder, "simulated.pickle"))
            if problem:
                failed += 1
                print("seed %d: %s" % (seed, problem))
    print("%d simulated recordings, %d wrong" % (last - first, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
