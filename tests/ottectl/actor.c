/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Clients for the test of ottectl. Each scene makes its objects, prints their ids as one JSON object,
 * and stays until it is killed: its objects are there for as long.
 *
 *   actor loans              a lender with a PAGES region, a loan to a child that has accepted it, an
 *                            offer to it, and an exposure to a remote peer
 *   actor hold UID BYTES [COMM]  a hold, of a process of that name
 *   actor member UID DOMAIN  a member of a domain, with a NIC
 *   actor refused UID        tries to make holds until it is refused; prints how many it got
 *   actor open               has the device open and is no client
 *   actor terminal COMMAND...  runs it on a terminal, prints what it draws, and ends as it does
 *   actor as UID COMMAND...  becomes that user, without capabilities, and runs the command
 */
#include <grp.h>
#include <pty.h>
#include <sys/prctl.h>

#include "../kselftest/otte_test.h"

#define REGION_BYTES (4 * PAGE)
#define REMOTE_PEER 0x77
#define REMOTE_INCARNATION 9

static void die(const char *what, int code)
{
	fprintf(stderr, "actor: %s: %s\n", what, strerror(code < 0 ? -code : errno));
	exit(1);
}

static void must(const char *what, int code)
{
	if (code < 0)
		die(what, code);
}

static void become(const char *text)
{
	uid_t uid = (uid_t)strtoul(text, NULL, 10);

	if (uid && (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid)))
		die("becoming another user", 0);
}

/* The device is root's: it is opened first, and the client is of the user it became. */
static int client_of(const char *user, uint64_t *client)
{
	int fd = otte_open();

	must("open", fd);
	become(user);
	must("client", otte_init_flags(fd, 0, client));
	return fd;
}

static void stay(void)
{
	fflush(stdout);
	for (;;)
		pause();
}

/* Tells its id, accepts the first offer, tells so, and stays. */
static void borrower(int sock)
{
	uint64_t client;
	int fd = otte_client(&client);

	must("borrower", fd);
	say(sock, client);
	must("accept", otte_accept(fd, hear(sock), NULL));
	say(sock, 0);
	for (;;)
		pause();
}

static void loans(void)
{
	uint64_t client, region = 0, loan = 0, offer = 0, remote = 0, other;
	int fd = client_of("0", &client);
	struct peer peer;
	void *memory;

	peer = peer_start(borrower);
	other = hear(peer.sock);
	memory = otte_pages(REGION_BYTES);
	must("region",
	     otte_region(fd, OTTE_BACKING_PAGES, OTTE_READ, memory, REGION_BYTES, &region));
	must("offer",
	     otte_offer(fd, region, PAGE, 2 * PAGE, other, OTTE_READ, OTTE_LOAN_REVOCABLE, &loan));
	say(peer.sock, loan);
	hear(peer.sock);
	must("second offer", otte_offer(fd, region, 0, 100, other, OTTE_READ, 0, &offer));
	must("expose", otte_expose(fd, region, 3 * PAGE, 100, REMOTE_PEER, REMOTE_INCARNATION,
				   OTTE_READ, &remote));
	printf("{\"pid\": %d, \"client\": %llu, \"borrower\": %llu, \"borrower_pid\": %d, "
	       "\"region\": %llu, \"loan\": %llu, \"offer\": %llu, \"remote\": %llu}\n",
	       getpid(), (unsigned long long)client, (unsigned long long)other, peer.pid,
	       (unsigned long long)region, (unsigned long long)loan, (unsigned long long)offer,
	       (unsigned long long)remote);
	stay();
}

static void hold(const char *user, const char *bytes)
{
	uint64_t client, id = 0;
	int fd = client_of(user, &client);

	must("hold", otte_hold(fd, strtoull(bytes, NULL, 10), &id));
	printf("{\"pid\": %d, \"client\": %llu, \"hold\": %llu}\n", getpid(),
	       (unsigned long long)client, (unsigned long long)id);
	stay();
}

static void member(const char *user, const char *domain)
{
	struct otte_domain_join join = { .size = sizeof(join) };
	struct otte_domain_nic nic = { .size = sizeof(nic), .name = "actor0" };
	uint64_t client;
	int fd = client_of(user, &client);

	strncpy((char *)join.name, domain, sizeof(join.name) - 1);
	must("join", otte_call(fd, OTTE_IOC_DOMAIN_JOIN, &join));
	must("nic", otte_call(fd, OTTE_IOC_DOMAIN_NIC, &nic));
	printf("{\"pid\": %d, \"client\": %llu, \"domain\": %llu}\n", getpid(),
	       (unsigned long long)client, (unsigned long long)join.domain);
	stay();
}

static void refused(const char *user)
{
	uint64_t client, id = 0;
	int fd = client_of(user, &client), rc, got = 0;

	while (!(rc = otte_hold(fd, 1, &id)))
		got++;
	printf("{\"pid\": %d, \"client\": %llu, \"got\": %d, \"error\": %d}\n", getpid(),
	       (unsigned long long)client, got, -rc);
	stay();
}

static int terminal(char **command)
{
	char text[4096];
	int master, status;
	pid_t child = forkpty(&master, NULL, NULL, NULL);
	ssize_t got;

	if (!child) {
		execvp(command[0], command);
		die(command[0], 0);
	}
	must("terminal", child);
	while ((got = read(master, text, sizeof(text))) > 0)
		if (write(STDOUT_FILENO, text, (size_t)got) != got)
			die("output", 0);
	if (waitpid(child, &status, 0) < 0)
		die("wait", 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	const char *scene = argc > 1 ? argv[1] : "";

	if (!strcmp(scene, "loans") && argc == 2)
		loans();
	if (!strcmp(scene, "hold") && argc == 5)
		prctl(PR_SET_NAME, argv[4]);
	if (!strcmp(scene, "hold") && (argc == 4 || argc == 5))
		hold(argv[2], argv[3]);
	if (!strcmp(scene, "member") && argc == 4)
		member(argv[2], argv[3]);
	if (!strcmp(scene, "refused") && argc == 3)
		refused(argv[2]);
	if (!strcmp(scene, "open") && argc == 2) {
		must("open", otte_open());
		printf("{\"pid\": %d}\n", getpid());
		stay();
	}
	if (!strcmp(scene, "terminal") && argc > 2)
		return terminal(argv + 2);
	if (!strcmp(scene, "as") && argc > 3) {
		become(argv[2]);
		execvp(argv[3], argv + 3);
		die(argv[3], 0);
	}
	fprintf(stderr, "actor: wrong usage\n");
	return 1;
}
