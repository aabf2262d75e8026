# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The direction of dependencies. Input: "FILE:LINE:PATH", where PATH is what the #include names,
# resolved to a file of the tree. Prints one line for each include that points the wrong way.
#
#   tools -> include/otte -> lib/engine -> lib/transport -> lib/sched
#         -> lib/{control, ledger, cuda, topo} -> lib/base
#
# A layer may include itself and the layers right of it. The four in braces do not include each other,
# and neither do the transports. include/otte is what an application sees: it includes nothing of ours,
# and everybody may use its types. The module's ABI is for the module and those who speak to it.

BEGIN {
	FS = ":"
	rank["lib/base"] = 1
	rank["lib/control"] = rank["lib/ledger"] = rank["lib/cuda"] = rank["lib/topo"] = 2
	rank["lib/sched"] = 3
	rank["lib/transport"] = 4
	rank["lib/engine"] = 5
}

# lib/transport/tcp/lane.c -> lib/transport
function layer(path,    part) {
	split(path, part, "/")
	return part[1] "/" part[2]
}

# lib/transport/tcp/lane.c -> tcp; lib/transport/transport.h -> ""
function transport(path,    part, n) {
	n = split(path, part, "/")
	return part[1] "/" part[2] == "lib/transport" && n > 3 ? part[3] : ""
}

function refuse(why) {
	printf "%s:%s: includes: %s: %s\n", $1, $2, $3, why
}

{
	from = layer($1)
	to = layer($3)
}

$3 ~ /^include\/uapi\// {
	if ($1 !~ /^(include\/uapi|kmod|lib\/ledger|tools\/ottectl)\// &&
	    $1 !~ /^tests\/(kselftest|ottectl|e2e\/guest|unit\/ottectl)\// &&
	    $1 !~ /^lib\/sched\/[a-z_]*slot[a-z_]*\.[ch]$/)
		refuse("the module's ABI is not for this file")
	next
}

$1 ~ /^kmod\// && $3 !~ /^kmod\// {
	refuse("the module includes nothing of user space")
	next
}

$1 ~ /^include\/otte\// && $3 !~ /^include\/otte\// {
	refuse("a public header includes public headers only")
	next
}

# Of the library's inside, tools may use what keeps no state of an engine; examples use nothing of it.
$1 ~ /^tools\// && $3 ~ /^(lib|kmod)\// && $3 !~ /^lib\/(base|topo)\// &&
$3 !~ /^lib\/transport\/rdma\/(verbs|discovery)\.h$/ && $3 !~ /^lib\/cuda\/(driver|abi|table)\.h$/ {
	refuse("tools use the public headers, lib/base, lib/topo, the discovery of verbs devices and the table of CUDA")
	next
}

$1 ~ /^examples\// && $3 ~ /^(lib|kmod|tools)\// {
	refuse("examples use the public headers only")
	next
}

$1 ~ /^lib\// && $3 !~ /^include\/otte\// {
	if (!(from in rank) || (!(to in rank)))
		refuse("not a layer of lib/")
	else if (rank[to] > rank[from])
		refuse("points up")
	else if (rank[to] == rank[from] && to != from)
		refuse("siblings do not include each other")
	else if (transport($3) != "" && transport($1) != transport($3) && from == "lib/transport")
		refuse("a transport is known to itself only")
}
