# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Whether a text is OpenMetrics, as far as gauges go, and what the older Prometheus format takes too: each
# complaint names the line; the exit status is 1 where there is one.

function wrong(why) {
	printf "%d: %s: %s\n", NR, why, $0
	bad = 1
}

# Takes a label off the front of `rest`; false where there is none.
function label(    name, value) {
	if (!match(rest, /^[a-zA-Z_][a-zA-Z0-9_]*="/))
		return 0
	name = substr(rest, 1, RLENGTH - 2)
	rest = substr(rest, RLENGTH + 1)
	if (name in names)
		wrong("label " name " twice")
	names[name] = 1
	while (1) {
		if (match(rest, /^[^\\"]+/) || match(rest, /^\\[\\n"]/))
			rest = substr(rest, RLENGTH + 1)
		else
			break
	}
	if (substr(rest, 1, 1) != "\"")
		return 0
	rest = substr(rest, 2)
	return 1
}

function labels() {
	split("", names)
	while (label()) {
		if (substr(rest, 1, 1) == "}") {
			rest = substr(rest, 2)
			return 1
		}
		if (substr(rest, 1, 1) != ",")
			return 0
		rest = substr(rest, 2)
	}
	return 0
}

function sample(    name, series) {
	rest = $0
	match(rest, /^[a-zA-Z_:][a-zA-Z0-9_:]*/)
	if (RLENGTH < 1)
		return wrong("no name")
	name = substr(rest, 1, RLENGTH)
	rest = substr(rest, RLENGTH + 1)
	if (substr(rest, 1, 1) == "{") {
		rest = substr(rest, 2)
		if (!labels())
			return wrong("labels")
	}
	if (rest !~ /^ ([-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?|NaN|[-+]Inf)$/)
		return wrong("value")
	series = substr($0, 1, length($0) - length(rest))
	if (series in seen)
		wrong("a second time")
	seen[series] = 1
	if (name != family)
		return wrong("not of the family that was announced")
	samples++
}

function announce(kind, name) {
	if (name !~ /^[a-zA-Z_:][a-zA-Z0-9_:]*$/)
		return wrong("name of a family")
	if (name != family) {
		if (kind != "TYPE")
			wrong("a family begins with its type")
		if (name in families)
			wrong("a family in two places")
		families[name] = 1
		family = name
		samples = 0
		split("", told)
	}
	if (kind in told)
		wrong("twice for one family")
	if (samples)
		wrong("behind samples of its family")
	told[kind] = 1
}

ended { wrong("behind the end") }

/^# EOF$/ {
	ended = 1
	next
}

/^# TYPE / {
	announce("TYPE", $3)
	if ($0 !~ /^# TYPE [^ ]+ gauge$/)
		wrong("type")
	next
}

/^# UNIT / {
	announce("UNIT", $3)
	if (NF != 4 || $3 !~ ("_" $4 "$"))
		wrong("the name does not end in its unit")
	next
}

/^# HELP / {
	announce("HELP", $3)
	if (NF < 4)
		wrong("no text")
	next
}

/^#/ || /^$/ {
	wrong("neither comment nor sample")
	next
}

{ sample() }

END {
	if (!ended) {
		print "no end"
		bad = 1
	}
	exit bad
}
