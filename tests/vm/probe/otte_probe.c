// SPDX-License-Identifier: GPL-2.0-only
/*
 * The laboratory's own module: it proves that a module can be built, loaded and unloaded, and that
 * what a kernel says when something is wrong reaches the host. It is no part of the product.
 *
 * /sys/kernel/otte_probe/do takes one word and misbehaves accordingly:
 *   warn, oops, panic, hang; for the debug kernel atomic (sleeps under a spinlock), lockdep (takes two
 *   locks in both orders), kasan (reads freed memory), leak (forgets an object); for the KCSAN kernel
 *   race (two threads write one word).
 */
#include <linux/delay.h>
#include <linux/kobject.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/sysfs.h>

static char *greeting = "none";
module_param(greeting, charp, 0444);
MODULE_PARM_DESC(greeting, "a word to print when the module is loaded");

static DEFINE_SPINLOCK(probe_spin);
static DEFINE_MUTEX(probe_first);
static DEFINE_MUTEX(probe_second);
static struct kobject *probe_kobj;

static noinline void probe_lock_order(void)
{
	mutex_lock(&probe_first);
	mutex_lock(&probe_second);
	mutex_unlock(&probe_second);
	mutex_unlock(&probe_first);

	mutex_lock(&probe_second);
	mutex_lock(&probe_first);
	mutex_unlock(&probe_first);
	mutex_unlock(&probe_second);
}

static noinline void probe_use_after_free(void)
{
	char *object = kmalloc(64, GFP_KERNEL);

	if (!object)
		return;
	/* The compiler must see neither that this is freed memory nor that the value is unused. */
	OPTIMIZER_HIDE_VAR(object);
	kfree(object);
	pr_info("otte_probe: freed memory holds %d\n", READ_ONCE(object[3]));
}

static noinline void probe_leak(void)
{
	void *object = kmalloc(77, GFP_KERNEL);

	/* The only pointer to it dies with this frame. */
	pr_info("otte_probe: %s\n", object ? "leaked" : "no memory");
}

static long probe_word;

static int probe_writer(void *unused)
{
	while (!kthread_should_stop()) {
		probe_word++;
		cond_resched();
	}
	return 0;
}

/* Long enough for KCSAN, which watches one access in a few thousand. */
static noinline int probe_race(void)
{
	struct task_struct *writer = kthread_run(probe_writer, NULL, "otte_probe");
	unsigned long end = jiffies + 10 * HZ;

	if (IS_ERR(writer))
		return PTR_ERR(writer);
	while (time_before(jiffies, end)) {
		probe_word++;
		cond_resched();
	}
	kthread_stop(writer);
	return 0;
}

static ssize_t do_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf, size_t n)
{
	if (sysfs_streq(buf, "warn")) {
		WARN(1, "otte_probe was asked to warn\n");
	} else if (sysfs_streq(buf, "oops")) {
		WRITE_ONCE(*(volatile int *)NULL, 1);
	} else if (sysfs_streq(buf, "panic")) {
		panic("otte_probe was asked to panic\n");
	} else if (sysfs_streq(buf, "hang")) {
		local_irq_disable();
		for (;;)
			cpu_relax();
	} else if (sysfs_streq(buf, "atomic")) {
		spin_lock(&probe_spin);
		msleep(1);
		spin_unlock(&probe_spin);
	} else if (sysfs_streq(buf, "lockdep")) {
		probe_lock_order();
	} else if (sysfs_streq(buf, "kasan")) {
		probe_use_after_free();
	} else if (sysfs_streq(buf, "leak")) {
		probe_leak();
	} else if (sysfs_streq(buf, "race")) {
		int ret = probe_race();

		if (ret)
			return ret;
	} else {
		return -EINVAL;
	}
	return n;
}

static struct kobj_attribute probe_do = __ATTR_WO(do);

static int __init probe_init(void)
{
	int ret;

	probe_kobj = kobject_create_and_add("otte_probe", kernel_kobj);
	if (!probe_kobj)
		return -ENOMEM;
	ret = sysfs_create_file(probe_kobj, &probe_do.attr);
	if (ret) {
		kobject_put(probe_kobj);
		return ret;
	}
	pr_info("otte_probe: loaded, greeting %s\n", greeting);
	return 0;
}

static void __exit probe_exit(void)
{
	kobject_put(probe_kobj);
	pr_info("otte_probe: unloaded\n");
}

module_init(probe_init);
module_exit(probe_exit);
MODULE_DESCRIPTION("self-test of the laboratory");
MODULE_LICENSE("GPL");
