# SPDX-License-Identifier: Apache-2.0
# Puts the page together: a line "@include FILE" is that file of the same folder; then
# prints all of it as a C array, a line of it to a line.
#
#   awk -v folder=FOLDER -f page.awk FOLDER/page.html
BEGIN {
	for (i = 1; i < 256; i++)
		code[sprintf("%c", i)] = i
	print "/* Made from tools/report/page by page.awk. */"
	print "#include \"tools/report/page_template.h\"\n"
	print "const unsigned char page_template[] = {"
}

function put(line,    i, row, c) {
	row = ""
	for (i = 1; i <= length(line); i++) {
		c = substr(line, i, 1)
		if (!(c in code) || code[c] > 126) {
			print "page.awk: not ASCII: " line >"/dev/stderr"
			failed = 1
			exit 1
		}
		row = row code[c] ","
	}
	print row "10,"
}

$1 == "@include" {
	file = folder "/" $2
	while ((got = (getline line <file)) > 0)
		put(line)
	if (got < 0) {
		print "page.awk: " file " cannot be read" >"/dev/stderr"
		failed = 1
		exit 1
	}
	close(file)
	next
}

{ put($0) }

END {
	print "0 };"
	exit failed
}
