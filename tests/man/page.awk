# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Takes a man page's source apart. -v want= one of
#   names     what the page documents, one a line
#   headings  its sections
#   synopsis  the C text of SYNOPSIS
#   structs   the C text of literal blocks elsewhere
#   errors    "CODE FUNCTION" for each entry of ERRORS that names functions, else "CODE *"
#   refs      "NAME SECTION" for each reference such as *otte_notify*(3)
#   keys      the lines "*key* = ..." of otte.json(5)

/^# / {
	section = substr($0, 3)
	if (want == "headings")
		print section
	next
}

/^```/ {
	literal = !literal
	next
}

want == "names" && section == "NAME" && / - / {
	sub(/ - .*/, "")
	gsub(/[, ]+/, "\n")
	print
}

want == "synopsis" && section == "SYNOPSIS" && literal
want == "structs" && section != "SYNOPSIS" && literal
want == "keys" && !literal && /^\*[a-z_.]+\* = /

want == "errors" && section == "ERRORS" && /^\*E[A-Z0-9]+\*/ {
	code = $1
	gsub(/\*/, "", code)
	if (NF == 1)
		print code " *"
	for (i = 2; i <= NF; i++) {
		sub(/,$/, "", $i)
		print code " " $i
	}
}

want == "refs" && !literal {
	text = $0
	while (match(text, /\*[a-z_.]+\*\([1-9]\)/)) {
		ref = substr(text, RSTART, RLENGTH)
		text = substr(text, RSTART + RLENGTH)
		gsub(/[*)]/, "", ref)
		sub(/\(/, " ", ref)
		print ref
	}
}
