# SPDX-License-Identifier: Apache-2.0
"""What check_questions.py and the files that it imports have in common: running soma, and counting failures."""
import glob
import json
import os
import subprocess
import sys

SOMA, SOURCE = sys.argv[1], sys.argv[2]
HEADER = "time,thread,op,device,stream,ptr,size,tag,generation,detail\n"
failed = 0


def expect(what, got, wanted):
    global failed
    if got != wanted:
        failed += 1
        print(f"FAIL: {what}: expected {wanted!r}, got {got!r}")


def soma(*arguments):
    """(status, standard output, standard error); no signal ends it, in no case."""
    done = subprocess.run([SOMA, *arguments], capture_output=True, timeout=600)
    status = done.returncode
    if status not in (0, 1, 2, 3) or b"runtime error" in done.stderr:
        expect(f"soma {' '.join(arguments)}: status", status, "0 to 3")
        sys.stdout.write(done.stderr.decode(errors="replace"))
    return status, done.stdout.decode(), done.stderr.decode(errors="replace")


def answer(wanted, *arguments):
    """The JSON of a run that ends with that status."""
    status, out, err = soma(*arguments, "--json")
    expect(f"soma {' '.join(arguments)}: status", status, wanted)
    try:
        return json.loads(out)
    except ValueError:
        expect(f"soma {' '.join(arguments)}", out + err, "JSON")
        return {}


def write(folder, name, lines):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(HEADER + "".join(line + "\n" for line in lines))
    return path


def samples():
    folder = os.environ.get("SOMA_TEST_TRACES", "")
    found = glob.glob(os.path.join(SOURCE, "examples", "*.csv*"))
    if folder:
        found += [path for path in glob.glob(os.path.join(folder, "*")) + glob.glob(os.path.join(folder, "dsa", "*"))
                  if os.path.isfile(path) and not path.endswith(".md")]
    return sorted(found)


def failures():
    return failed
