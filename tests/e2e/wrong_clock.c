/* Loaded before libc: the wall clock of the process is WRONG_CLOCK seconds off, as on a machine whose clock is wrong.
 * The monotonic clock is right. What waits until an instant of the wall clock waits as long as it means to.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#define LIBC(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static long off(void) { return strtol(getenv("WRONG_CLOCK"), NULL, 10); }

static int is_of_the_wall(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

/* An instant since 2001 is one of the wall clock: no machine has been up for so long. */
static struct timespec as_the_kernel_means(const struct timespec *until) {
  struct timespec true_until = *until;
  if (until->tv_sec > 1000000000L) true_until.tv_sec -= off();
  return true_until;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = LIBC(clock_gettime)(clock, now);
  if (!failed && is_of_the_wall(clock)) now->tv_sec += off();
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  int failed = LIBC(gettimeofday)(now, zone);
  if (!failed) now->tv_sec += off();
  return failed;
}

time_t time(time_t *now) {
  time_t seconds = LIBC(time)(NULL) + off();
  if (now) *now = seconds;
  return seconds;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
  struct timespec true_until = as_the_kernel_means(until);
  return LIBC(pthread_cond_timedwait)(condition, mutex, &true_until);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
  struct timespec true_until = as_the_kernel_means(until);
  return LIBC(sem_timedwait)(semaphore, &true_until);
}

long syscall(long number, ...) {
  va_list given;
  long words[6];
  struct timespec true_until;
  va_start(given, number);
  for (int word = 0; word < 6; word++) words[word] = va_arg(given, long);
  va_end(given);
  if (number == SYS_futex && words[1] & FUTEX_CLOCK_REALTIME && words[3]) {
    true_until = as_the_kernel_means((const struct timespec *)words[3]);
    words[3] = (long)&true_until;
  }
  return LIBC(syscall)(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
