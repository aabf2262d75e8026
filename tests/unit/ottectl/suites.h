/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Suites of this program, and what stands for main.c of ottectl. */
#ifndef OTTECTL_SUITES_H
#define OTTECTL_SUITES_H

int files_suite(void);
int messages_suite(void);
int tally_suite(void);

/* How often somebody complained, and the last words. */
extern unsigned complaints;
extern char complaint[512];

#endif
