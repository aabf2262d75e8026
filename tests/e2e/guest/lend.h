/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A process that lends to another and borrows from it, by the module's calls alone. */
#ifndef OTTE_TESTS_LEND_H
#define OTTE_TESTS_LEND_H

/*
 * Says its client's id on `sock` and hears the other's; lends it memory to read and memory to write, and
 * reads and writes what it is lent, by copy and by mapping. Exits with 0 if all was as it should be, else
 * with the step that was not.
 */
_Noreturn void lend_to_each_other(int sock, unsigned own, unsigned others);

#endif
