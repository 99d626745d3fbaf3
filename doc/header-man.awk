# SPDX-License-Identifier: Apache-2.0
# soma_PAGE(3) from the comments of include/soma/PAGE.h: make update-man.
# `date` is the page's.
#
# A section comment becomes a heading, a blank line separates entries; an entry is
# its declaration as it stands in the header, then its comment as text.

function escaped(text) {
	gsub(/\\/, "\\e", text)
	if (text ~ /^[.']/)
		text = "\\&" text
	return text
}

# A comment's lines without its frame; every sentence on a line of its own.
function comment_text(text) {
	gsub(/^[ \t]*\/\*+ ?/, "", text)
	gsub(/ ?\*+\/[ \t]*$/, "", text)
	gsub(/^[ \t]*\* ?/, "", text)
	sub(/[ \t]+$/, "", text)
	return text
}

function print_text(line) {
	if (line == "") {
		if (!fresh)
			print ".Pp"
		fresh = 1
		return
	}
	while (match(line, /\. +[A-Z`]/)) {
		print escaped(substr(line, 1, RSTART))
		line = substr(line, RSTART + RLENGTH - 1)
	}
	print escaped(line)
	fresh = 0
}

# X(name) with a comment: a counter and its getter.
function print_counter(line, name, note) {
	name = line
	sub(/^[ \t]*X\(/, "", name)
	sub(/\).*/, "", name)
	note = line
	sub(/^[^*]*\*+ */, "", note)
	sub(/ *\*+\/.*/, "", note)
	print ".It Fn soma_model_" name
	print escaped(note)
}

function flush_entry(i) {
	if (code_count > 0 && !is_counters) {
		print ".Bd -literal"
		for (i = 1; i <= code_count; i++)
			print escaped(code[i])
		print ".Ed"
		fresh = 0
	}
	while (text_count > 0 && text[text_count] == "")
		text_count--
	if (is_counters)
		sub(/^X\(name\): /, "", text[1])
	if (text_count > 0) {
		if (!fresh)
			print ".Pp"
		fresh = 1
		for (i = 1; i <= text_count; i++)
			print_text(text[i])
	}
	if (is_counters) {
		print ".Bl -tag -width Ds"
		for (i = 1; i <= code_count; i++)
			if (code[i] ~ /^[ \t]+X\(/)
				print_counter(code[i])
		print ".El"
		fresh = 0
	}
	code_count = text_count = is_counters = 0
}

BEGIN {
	about["pool"] = "stream-ordered allocation with caching, thresholds and handles"
	about["budget"] = "limits on bytes outstanding, and promises out of them"
	about["launch"] = "the blocks that a piece of work uses, in order with all others"
	about["model"] = "an exact account of a stream-ordered memory pool"
	about["resource"] = "stream-ordered device memory with an account of who has it"
	about["runtime"] = "a device opened by one configuration string"
	see["pool"] = ".Xr soma_model 3 ,\n.Xr soma_resource 3"
	see["budget"] = ".Xr soma_resource 3"
	see["launch"] = ".Xr soma_resource 3 ,\n.Xr soma_runtime 3"
	see["model"] = ".Xr soma 1"
	see["resource"] = ".Xr soma_budget 3 ,\n.Xr soma_launch 3 ,\n.Xr soma_runtime 3 ,\n.Xr soma-trace 5"
	see["runtime"] = ".Xr soma_budget 3 ,\n.Xr soma_launch 3 ,\n.Xr soma_resource 3 ,\n.Xr soma.conf 5"
	if (!(page in about)) {
		print "header-man.awk: page=\"" page "\", expected budget, launch, model, pool, resource or runtime" >"/dev/stderr"
		failed = 1
		exit 1
	}
	print ".\\\" SPDX-License-Identifier: Apache-2.0"
	print ".\\\" Made from include/soma/" page ".h by doc/header-man.awk: make update-man"
	print ".Dd " date "\n.Dt SOMA_" toupper(page) " 3\n.Os\n.Sh NAME\n.Nm soma_" page
	print ".Nd " about[page]
	print ".Sh LIBRARY\nStream-ordered memory allocator (libsoma, -lsoma)"
	print ".Sh SYNOPSIS\n.In soma/" page ".h\n.Sh DESCRIPTION"
}

/^#pragma GCC visibility push/ { inside = 1; next }
/^#pragma GCC visibility pop/ { flush_entry(); inside = 0 }

# The header's own comment: the second one in the file.
!inside && /^\/\*$/ && !described { described = in_head = 1; fresh = 1; next }
in_head && /\*\/$/ { in_head = 0; next }
in_head { line = comment_text($0); if (NR > 3) print_text(line); next }
!inside { next }

/^\/\* ---- / {
	flush_entry()
	title = $0
	gsub(/^\/\* -+ | -+ ?\*\/$/, "", title)
	sub(/ -+.*$/, "", title)
	print ".Ss " toupper(substr(title, 1, 1)) substr(title, 2)
	fresh = 1
	next
}
/^$/ { flush_entry(); next }

# The macro that makes the getters, and its clean-up, say nothing to a reader.
/^#define SOMA__X\(/ || /^#undef SOMA__X/ || /^SOMA_MODEL_COUNTER_MAP/ { next }
/^#define SOMA_MODEL_COUNTER_MAP/ { is_counters = 1; next }

in_comment {
	text[++text_count] = comment_text($0)
	if (/\*\/$/)
		in_comment = 0
	next
}
/^\/\*/ && code_count == 0 {
	line = comment_text($0)
	if (line != "")
		text[++text_count] = line
	in_comment = !/\*\/$/
	next
}
{ code[++code_count] = $0 }

END {
	if (failed)
		exit 1
	print ".Sh SEE ALSO\n" see[page]
}
