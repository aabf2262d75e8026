/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "../common/stopping.h"
#include "../common/whole.h"
#include "tool.h"

#define BLOCKS_MAX (1u << 26)
#define BLOCK_TOKENS 512

struct trace_known {
	uint64_t hash_id;
	uint32_t block;
	UT_hash_handle hh;
};

/* ---- Growing --------------------------------------------------------------------------------- */

static bool make_room(void **array, size_t *room, size_t used, size_t element)
{
	size_t wanted = *room ? *room * 2 : 1024;
	void *bigger;

	if (used < *room)
		return true;
	bigger = reallocarray(*array, wanted, element);
	if (!bigger)
		return false;
	*array = bigger;
	*room = wanted;
	return true;
}

/* The number of a block, known or new. False without memory. */
static bool block_of(struct trace *trace, uint64_t hash_id, uint32_t *block)
{
	struct trace_known *known;

	HASH_FIND(hh, trace->known, &hash_id, sizeof(hash_id), known);
	if (!known) {
		known = malloc(sizeof(*known));
		if (!known || trace->block_count == BLOCKS_MAX ||
		    !make_room((void **)&trace->hash_ids, &trace->block_room, trace->block_count,
			       sizeof(*trace->hash_ids))) {
			free(known);
			return false;
		}
		known->hash_id = hash_id;
		known->block = (uint32_t)trace->block_count;
		HASH_ADD(hh, trace->known, hash_id, sizeof(hash_id), known);
		trace->hash_ids[trace->block_count++] = hash_id;
	}
	*block = known->block;
	return true;
}

static struct trace_request *add_request(struct trace *trace)
{
	struct trace_request *request;

	if (!make_room((void **)&trace->requests, &trace->request_room, trace->request_count,
		       sizeof(*trace->requests)))
		return NULL;
	request = &trace->requests[trace->request_count++];
	memset(request, 0, sizeof(*request));
	request->first = trace->access_count;
	return request;
}

/* To the last request. */
static bool add_access(struct trace *trace, uint64_t hash_id)
{
	uint32_t block;

	if (!block_of(trace, hash_id, &block) ||
	    !make_room((void **)&trace->accesses, &trace->access_room, trace->access_count,
		       sizeof(*trace->accesses)))
		return false;
	trace->accesses[trace->access_count++] = block;
	trace->requests[trace->request_count - 1].count++;
	return true;
}

void trace_free(struct trace *trace)
{
	struct trace_known *known, *next;

	HASH_ITER(hh, trace->known, known, next) {
		HASH_DEL(trace->known, known);
		free(known);
	}
	free(trace->requests);
	free(trace->accesses);
	free(trace->hash_ids);
	memset(trace, 0, sizeof(*trace));
}

/* ---- Files ----------------------------------------------------------------------------------- */

static const char *take_line(struct trace *trace, const json_t *line)
{
	static const char *const keys[] = { "timestamp", "input_length", "output_length" };
	const json_t *ids = json_object_get(line, "hash_ids");
	struct trace_request *request;
	uint64_t values[3];
	json_t *id;
	size_t i;

	if (!json_is_object(line))
		return "an object is wanted, with timestamp, input_length, output_length and "
		       "hash_ids, not an array";
	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		if (!json_is_integer(json_object_get(line, keys[i])) ||
		    json_integer_value(json_object_get(line, keys[i])) < 0)
			return "timestamp, input_length and output_length must be numbers from 0 on";
		values[i] = (uint64_t)json_integer_value(json_object_get(line, keys[i]));
	}
	if (!json_is_array(ids))
		return "hash_ids must be an array";
	request = add_request(trace);
	if (!request)
		return "no memory";
	request->timestamp_ms = values[0];
	request->input_length = values[1];
	request->output_length = values[2];
	json_array_foreach(ids, i, id)
	{
		if (!json_is_integer(id))
			return "hash_ids must hold numbers";
		if (!add_access(trace, (uint64_t)json_integer_value(id)))
			return "no memory, or more blocks than this program keeps";
	}
	return NULL;
}

static int load_lines(struct trace *trace, FILE *file, const char *path)
{
	const char *wrong = NULL;
	size_t room = 0, number = 0;
	json_error_t error;
	char *text = NULL;
	json_t *line;

	while (!wrong && getline(&text, &room, file) > 0) {
		number++;
		if (text[strspn(text, " \t\r\n")] == '\0')
			continue;
		line = json_loads(text, 0, &error);
		wrong = line ? take_line(trace, line) : error.text;
		json_decref(line);
	}
	free(text);
	if (wrong)
		return complain(EXIT_LOCAL, "%s: line %zu: %s", path, number, wrong);
	if (ferror(file))
		return complain(EXIT_LOCAL, "%s: %s", path, strerror(errno));
	if (!trace->access_count)
		return complain(EXIT_LOCAL, "%s: no request with a block", path);
	return EXIT_OK;
}

int trace_load(struct trace *trace, const char *path)
{
	FILE *file = fopen(path, "re");
	int rc;

	memset(trace, 0, sizeof(*trace));
	if (!file)
		return complain(EXIT_LOCAL, "%s: %s", path, strerror(errno));
	rc = load_lines(trace, file, path);
	fclose(file);
	return rc;
}

/* Each call is asked: a stream forgets what it could not write, and its end may well succeed. */
static bool write_request(FILE *file, const struct trace *trace,
			  const struct trace_request *request)
{
	size_t i;

	if (fprintf(file,
		    "{\"timestamp\": %" PRIu64 ", \"input_length\": %" PRIu64
		    ", \"output_length\": %" PRIu64 ", \"hash_ids\": [",
		    request->timestamp_ms, request->input_length, request->output_length) < 0)
		return false;
	for (i = 0; i < request->count; i++)
		if (fprintf(file, "%s%" PRIu64, i ? ", " : "",
			    trace->hash_ids[trace->accesses[request->first + i]]) < 0)
			return false;
	return fputs("]}\n", file) >= 0;
}

static int write_requests(FILE *file, const struct trace *trace)
{
	size_t i;

	for (i = 0; i < trace->request_count; i++) {
		if (stopping_count())
			return -EINTR;
		if (!write_request(file, trace, &trace->requests[i]))
			return -errno;
	}
	return fflush(file) ? -errno : 0;
}

/* Half a trace reads like a whole one. A pipe may have no reader: nobody looks at a flag then. */
int trace_write(const struct trace *trace, const char *path)
{
	struct whole whole;
	int rc;

	if (!whole_is_direct(path))
		stopping_is_noted();
	rc = whole_begin(&whole, path, 0);
	if (!rc)
		rc = whole_end(&whole, write_requests(whole.file, trace));
	if (rc == -EINTR)
		return complain(EXIT_TRANSFER, "%s: interrupted, nothing is written", path);
	return rc ? complain(EXIT_LOCAL, "%s: %s", path, strerror(-rc)) : EXIT_OK;
}

/* ---- Making one up --------------------------------------------------------------------------- */

#define SESSIONS 64
#define SESSION_BLOCKS_MAX 120
#define TURN_BLOCKS_MAX 16
#define NEW_SESSION_OF_8 3
#define GAP_MS_MAX 40

/* A conversation: each turn asks with all blocks so far and some new ones. Block 0 is everybody's. */
struct session {
	uint64_t ids[SESSION_BLOCKS_MAX];
	size_t count;
};

static uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static bool add_turn(struct trace *trace, struct session *session, uint64_t *next_id,
		     uint64_t *random, uint64_t *now_ms)
{
	struct trace_request *request = add_request(trace);
	size_t fresh = 1 + next_random(random) % TURN_BLOCKS_MAX, i;

	if (!request)
		return false;
	if (session->count + fresh > SESSION_BLOCKS_MAX ||
	    next_random(random) % 8 < NEW_SESSION_OF_8) {
		session->ids[0] = 0;
		session->count = 1;
	}
	for (i = 0; i < fresh; i++)
		session->ids[session->count++] = (*next_id)++;
	*now_ms += next_random(random) % GAP_MS_MAX;
	request->timestamp_ms = *now_ms;
	request->input_length = session->count * BLOCK_TOKENS - next_random(random) % BLOCK_TOKENS;
	request->output_length = 1 + next_random(random) % (2 * BLOCK_TOKENS);
	for (i = 0; i < session->count; i++)
		if (!add_access(trace, session->ids[i]))
			return false;
	return true;
}

int trace_generate(struct trace *trace, size_t requests, uint64_t seed)
{
	struct session *sessions = calloc(SESSIONS, sizeof(*sessions));
	uint64_t next_id = 1, now_ms = 0, random = seed;
	bool good = sessions != NULL;
	size_t i;

	memset(trace, 0, sizeof(*trace));
	for (i = 0; good && i < SESSIONS; i++)
		sessions[i].count = SESSION_BLOCKS_MAX; /* the first turn begins it */
	for (i = 0; good && i < requests; i++)
		good = add_turn(trace, &sessions[next_random(&random) % SESSIONS], &next_id,
				&random, &now_ms);
	free(sessions);
	return good ? EXIT_OK :
		      complain(EXIT_LOCAL, "no memory for a trace of %zu requests", requests);
}
