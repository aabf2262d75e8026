/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns a client's part in a domain: the three pages, from joining until the client closes. The module
 * takes it off the domain when the client ends, however that comes. Caller's lock: the client's.
 */
#include "ledger/kernel.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

static int map_pages(struct kernel_client *client)
{
	struct otte_ledger_domain *domain = &client->domain;
	int rc;

	rc = otte_module_domain_map(client->fd, OTTE_MODULE_PAGE_SLOT, (void **)&domain->slot);
	if (!rc)
		rc = otte_module_domain_map(client->fd, OTTE_MODULE_PAGE_LOAD,
					    (void **)&domain->load);
	if (!rc)
		rc = otte_module_domain_map(client->fd, OTTE_MODULE_PAGE_SHARE,
					    (void **)&domain->share);
	return rc;
}

static int refused(int rc, const char *name)
{
	switch (rc) {
	case -ENOENT:
		return otte_fail(rc,
				 "%s: the module has no domain of that name, an administrator "
				 "creates it (ottectl domains create)",
				 name);
	case -EACCES:
		return otte_fail(rc,
				 "%s: owner, group and mode of the domain do not let this process "
				 "in",
				 name);
	case -ENOSPC:
		return otte_fail(rc, "%s: the domain has as many members as there may be", name);
	case -EALREADY:
		return otte_fail(rc, "%s: this client is in a domain already", name);
	default:
		return otte_fail(rc, "%s: the module says %s", name, strerror(-rc));
	}
}

/* Who has joined and cannot map stays a member that says nothing until it closes: nobody can leave. */
int kernel_domain_join(struct kernel_client *client, const char *name,
		       struct otte_ledger_domain *domain)
{
	int rc = otte_module_check(&kernel_ledger_of(client)->facts, OTTE_MODULE_FEAT_DOMAIN);

	if (rc)
		return rc;
	rc = otte_module_domain_join(client->fd, name);
	if (rc)
		return refused(rc, name);
	rc = map_pages(client);
	if (rc) {
		kernel_domain_unmap(client);
		return otte_fail(rc, "%s: mmap of its pages: %s", name, strerror(-rc));
	}
	*domain = client->domain;
	return 0;
}

int kernel_domain_nic(struct kernel_client *client, const char *nic, uint32_t *index)
{
	int rc = otte_module_domain_nic(client->fd, nic, index);

	return rc ? otte_fail(rc, "nic %s: the module says %s", nic, strerror(-rc)) : 0;
}

void kernel_domain_unmap(struct kernel_client *client)
{
	struct otte_ledger_domain *domain = &client->domain;

	otte_module_domain_unmap((void *)domain->slot);
	otte_module_domain_unmap((void *)domain->load);
	otte_module_domain_unmap(domain->share);
	memset(domain, 0, sizeof(*domain));
}
