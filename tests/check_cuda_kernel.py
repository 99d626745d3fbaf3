# SPDX-License-Identifier: Apache-2.0
"""Runs the text of the scan kernel, one thread after another, on random memory.

There may be no GPU, and the stand-in driver does not read the text: so this interprets the few
instructions that the kernel has, and holds its answers against a plain comparison.  A read outside
the ranges is a failure, too.
"""
import random
import re
import struct
import sys

BASE = 0x10000
ALL = (1 << 64) - 1
COMPARE = {
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "gt": lambda a, b: a > b,
    "eq": lambda a, b: a == b,
}


def kernel_text(source):
    start = source.index("static const char kernel[]")
    text = source[start:source.index(";\n\n", start)]
    return "".join(s.replace("\\n", "\n") for s in re.findall(r'"([^"]*)"', text))


def instructions(text):
    code, labels = [], {}
    for line in text[text.index("{") + 1:text.rindex("}")].split("\n"):
        line = line.strip().rstrip(";")
        if line.endswith(":"):
            labels[line[:-1]] = len(code)
        elif line and not line.startswith(".reg"):
            code.append(line)
    return code, labels


class Thread:
    def __init__(self, memory, parameters, special, reads):
        self.memory, self.parameters, self.reads = memory, parameters, reads
        self.registers = dict(special)

    def value(self, text):
        return self.registers[text] if text.startswith("%") else int(text) & ALL

    def address(self, text):
        register, offset = re.match(r"\[(%\w+)(?:\+(\d+))?\]", text).groups()
        return self.registers[register] + int(offset or 0)

    def load(self, address, size):
        if address % size:
            raise ValueError("a load of %d bytes at 0x%x is not aligned" % (size, address))
        self.reads.append((address, size))
        return int.from_bytes(self.memory[address - BASE:address - BASE + size], "little")

    def reduce(self, address, function):
        value = function(self.load(address, 8)) & ALL
        self.memory[address - BASE:address - BASE + 8] = value.to_bytes(8, "little")

    def step(self, name, args):
        """The number that the first argument becomes; None: there is none."""
        operation = name.split(".")[0]
        wide = ALL if "64" in name or ".wide" in name else 0xffffffff
        if name.startswith("ld.param"):
            return self.parameters[args[1][1:-1]]
        if name.startswith("ld.global"):
            return self.load(self.address(args[1]), int(re.search(r"\d+$", name).group()) // 8)
        if name == "red.global.min.u64":
            return self.reduce(self.address(args[0]), lambda old: min(old, self.value(args[1])))
        if name == "red.global.add.u64":
            return self.reduce(self.address(args[0]), lambda old: old + self.value(args[1]))
        values = [self.value(a) for a in args[1:]]
        if operation == "setp":
            return COMPARE[name.split(".")[1]](*values)
        if operation in ("mov", "cvt", "cvta"):
            return values[0]
        return {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul": lambda a, b: a * b,
            "shl": lambda a, b: a << b,
            "shr": lambda a, b: a >> b,
            "and": lambda a, b: a & b,
            "or": lambda a, b: a | b,
        }[operation](*values) & wide

    def run(self, code, labels):
        at = 0
        for _ in range(100000):
            line = code[at]
            at += 1
            guarded = re.match(r"@(%p\d+) (.*)", line)
            if guarded:
                if not self.registers[guarded.group(1)]:
                    continue
                line = guarded.group(2)
            if line == "ret":
                return
            name, _, rest = line.partition(" ")
            args = [a.strip() for a in rest.split(",")]
            if name == "bra":
                at = labels[args[0]]
                continue
            value = self.step(name, args)
            if value is not None:
                self.registers[args[0]] = value
        raise ValueError("the kernel does not end")


def make_ranges(memory, count):
    ranges = []
    for i in range(count):
        at = 1024 + 1000 * i + random.randrange(10)
        length = random.randint(1, random.choice([5, 20, 300]))
        pattern = struct.pack("<I", random.getrandbits(32))
        for k in range(length):
            memory[at + k] = pattern[(BASE + at + k) & 3]
        bad = sorted(random.sample(range(length), random.randint(0, min(3, length))))
        for k in bad:
            memory[at + k] ^= random.randint(1, 255)
        memory[40 * i:40 * i + 40] = struct.pack("<QQ4sIQQ", BASE + at, length, pattern, 0, ALL, 0)
        ranges.append((at, length, bad))
    return ranges


def check(code, labels):
    memory, reads, count = bytearray(4096), [], random.randint(1, 3)
    ranges = make_ranges(memory, count)
    columns, width = random.randint(1, 3), random.choice([4, 8])
    for row in range(count + random.randint(0, 1)):
        for column in range(columns):
            for thread in range(width):
                special = {"%ctaid.y": row, "%ctaid.x": column, "%ntid.x": width,
                           "%tid.x": thread, "%nctaid.x": columns}
                Thread(memory, {"ranges": BASE, "count": count}, special, reads).run(code, labels)
    for i, (_, _, bad) in enumerate(ranges):
        first, number = struct.unpack("<QQ", memory[40 * i + 24:40 * i + 40])
        if first != (bad[0] if bad else ALL) or number != len(bad):
            raise ValueError("first %d, count %d where %r was expected" % (first, number, bad))
    for address, size in reads:
        if address >= BASE + 1024 and not any(
                BASE + at <= address and address + size <= BASE + at + length
                for at, length, _ in ranges):
            raise ValueError("a read of %d bytes outside the ranges" % size)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        code, labels = instructions(kernel_text(file.read()))
    random.seed(1)
    for _ in range(300):
        check(code, labels)
    print("the scan kernel: 300 scans of random memory, %d instructions" % len(code))


main()
