# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The public functions of headers: one line "NAME<tab>RETURN TYPE<tab>PROTOTYPE" for each OTTE_API.

/^OTTE_API / {
	text = $0
	while (text !~ /;/ && (getline line) > 0) {
		sub(/^[ \t]+/, " ", line)
		text = text line
	}
	sub(/^OTTE_API /, "", text)
	sub(/;.*/, ";", text)
	type = name = text
	sub(/\(.*/, "", name)
	sub(/.*[ *]/, "", name)
	type = substr(text, 1, index(text, name "(") - 1)
	sub(/ $/, "", type)
	print name "\t" type "\t" text
}
