# SPDX-License-Identifier: Apache-2.0
"""What a page said of itself (#selftest), against the data in it."""

import html
import json
import re
import sys

name, page_path, dom_path = sys.argv[1:]
page = open(page_path, encoding="utf-8").read()
dom = open(dom_path, encoding="utf-8").read()
failed = []


def check(fine, text):
    if not fine:
        failed.append(text)


data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))
found = re.search(r'<pre id="selftest">(.*?)</pre>', dom, re.S)
if found is None:
    sys.exit(f"FAIL: {name}: the page wrote nothing")
seen = json.loads(html.unescape(found.group(1)))
if not seen.get("done"):
    sys.exit(f"FAIL: {name}: {seen.get('error')}")

count = len(data["blocks"]["ptr"])
check(seen["blocks"] == count, f"{seen['blocks']} blocks, {count} in the data")
check(seen["fetched"] == 0, f"{seen['fetched']} things were fetched")
check(seen["scripts"] == 2 and seen["images"] == 0, "elements that the page does not have")
check(seen["title"] == data["title"] + " \u2013 soma plot", f"the title is {seen['title']}")
for what in ("by_holder", "by_stream", "by_pool", "digit_chooses", "memory_step", "map_step", "sizes_step",
             "timeline_step"):
    check(seen[what], what)
for kind, colours in seen["colours"].items():
    check(colours >= 2, f"{kind} has {colours} colours")

if count > 0:
    for what in ("hover_complete", "hover_ends", "selected", "wheel_narrows", "wheel_keeps_the_point", "drag_moves",
                 "zero_shows_all", "plus_narrows", "arrow_moves", "double_click_shows_all", "search_complete",
                 "search_says", "search_tours", "escape_ends"):
        check(seen[what], what)
    check(seen["search_of_nothing"] == 0, "a search of nothing finds something")
    # The block that was pointed at: what the page said of it, from the data.
    i = [f"{ptr:#x}" for ptr in data["blocks"]["ptr"]].index(seen["hover_block"])
    holders = {data["names"]["holder"][data["blocks"]["holder"][j]]
               for j, ptr in enumerate(data["blocks"]["ptr"]) if ptr == data["blocks"]["ptr"][i]}
    check(any(holder in seen["hover_text"] for holder in holders), f"no holder in {seen['hover_text']!r}")
    wanted = seen["search_name"].strip().lower()
    hits = sum(1 for j in range(count)
               if any(wanted in data["names"][by][data["blocks"][by][j]].lower()
                      for by in ("holder", "stream", "pool")))
    check(seen["search_found"] == hits, f"found {seen['search_found']} blocks of {wanted!r}, not {hits}")

for text in failed:
    print(f"FAIL: {name}: {text}")
if not failed:
    print(f"{name}: {count} blocks, fine")
sys.exit(1 if failed else 0)
