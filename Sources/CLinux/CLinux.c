#include "CLinux.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/openat2.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <locale.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <wchar.h>

static inline int result(long r) { return r < 0 ? -errno : (int)r; }

static int64_t nanoseconds(struct statx_timestamp t) {
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int clinux_statx(int directory, const char *path, int flags, struct clinux_facts *out) {
  struct statx x;
  if (statx(directory, path, flags, STATX_BASIC_STATS | STATX_BTIME, &x) < 0) return -errno;
  out->device = (uint64_t)x.stx_dev_major << 32 | x.stx_dev_minor;
  out->inode = x.stx_ino;
  out->size = x.stx_size;
  out->mtime_ns = nanoseconds(x.stx_mtime);
  out->ctime_ns = nanoseconds(x.stx_ctime);
  out->birth_ns = x.stx_mask & STATX_BTIME ? nanoseconds(x.stx_btime) : -1;
  out->mode = x.stx_mode;
  out->links = x.stx_nlink;
  out->uid = x.stx_uid;
  out->gid = x.stx_gid;
  return 0;
}

int clinux_renameat2(int from, const char *name, int to, const char *other, unsigned flags) {
  return result(renameat2(from, name, to, other, flags));
}

int clinux_openat2(int directory, const char *path, uint64_t flags, uint64_t resolve) {
  struct open_how how = {.flags = flags, .resolve = resolve};
  return result(syscall(SYS_openat2, directory, path, &how, sizeof how));
}

int clinux_syncfs(int fd) { return result(syncfs(fd)); }

int clinux_no_writer(int fd) {
  if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0) return -errno;
  return result(fcntl(fd, F_SETLEASE, F_UNLCK));
}

int64_t clinux_read_cached(int fd, void *buffer, uint64_t count, int64_t offset) {
  struct iovec v = {buffer, count};
  ssize_t r = preadv2(fd, &v, 1, offset, RWF_NOWAIT);
  return r < 0 ? -errno : r;
}

int64_t clinux_filesystem_type(int fd, int *error) {
  struct statfs s;
  *error = fstatfs(fd, &s) < 0 ? -errno : 0;
  return *error ? 0 : (int64_t)(uint32_t)s.f_type;
}

int clinux_space(int fd, struct clinux_space *out) {
  struct statvfs s;
  if (fstatvfs(fd, &s) < 0) return -errno;
  out->free_bytes = (uint64_t)s.f_bavail * s.f_frsize;
  out->total_bytes = (uint64_t)s.f_blocks * s.f_frsize;
  out->free_inodes = s.f_favail;
  out->total_inodes = s.f_files;
  return 0;
}

int64_t clinux_getdents(int fd, void *buffer, uint64_t size) {
  long r = syscall(SYS_getdents64, fd, buffer, size);
  return r < 0 ? -errno : r;
}

const char *clinux_errno_text(int code) { return strerrordesc_np(code); }

int clinux_eventfd(void) { return result(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }

int clinux_signalfd(uint64_t signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int i = 1; i < 64; i++)
    if (signals >> i & 1) sigaddset(&set, i);
  int e = pthread_sigmask(SIG_BLOCK, &set, 0);
  if (e) return -e;
  return result(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

int clinux_signalfd_read(int fd) {
  struct signalfd_siginfo info;
  return read(fd, &info, sizeof info) < 0 ? -errno : (int)info.ssi_signo;
}

int clinux_pidfd_open(int pid) { return result(pidfd_open(pid, 0)); }

int clinux_inotify(void) { return result(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)); }

int clinux_inotify_add(int fd, const char *path, uint32_t mask) {
  return result(inotify_add_watch(fd, path, mask));
}

int64_t clinux_bytes_acknowledged(int socket) {
  struct tcp_info info;
  memset(&info, 0, sizeof info);
  socklen_t size = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) < 0) return -errno;
  return (int64_t)info.tcpi_bytes_acked;
}

int clinux_bytes_queued(int socket) {
  int count = 0;
  return ioctl(socket, SIOCOUTQ, &count) < 0 ? -errno : count;
}

enum { MOST_OPTIONS = 64, OPTION_NAMES = 2048 };

void clinux_getopt(int argc, char **argv, const char *letters, const char *options, int first,
                   struct clinux_option *out) {
  static char names[OPTION_NAMES];
  struct option table[MOST_OPTIONS + 1];
  memset(table, 0, sizeof table);
  memset(out, 0, sizeof *out);
  int count = 0;
  if (strlen(options) >= sizeof names) options = "";
  strcpy(names, options);
  char *rest = names;
  for (char *name; count < MOST_OPTIONS && (name = strsep(&rest, " ")); count++) {
    size_t length = strlen(name);
    int takes = length > 0 && name[length - 1] == ':';
    if (takes) name[length - 1] = 0;
    table[count] = (struct option){name, takes ? required_argument : no_argument, 0, 1000 + count};
  }
  // 0 is glibc's way to say that everything begins anew.
  if (first) optind = 0;
  opterr = 0;
  int value = getopt_long(argc, argv, letters, table, 0);
  out->next = optind;
  out->argument = optarg;
  out->word = optind > 0 && optind <= argc ? argv[optind - 1] : "";
  if (value == -1) {
    out->kind = CLINUX_END;
  } else if (value == ':') {
    out->kind = CLINUX_MISSING_ARGUMENT;
  } else if (value == '?') {
    out->kind = optopt >= 1000 ? CLINUX_SURPLUS_ARGUMENT : CLINUX_UNKNOWN;
    out->letter = optopt >= 1000 ? 0 : optopt;
  } else if (value < 1000) {
    out->kind = CLINUX_LETTER;
    out->letter = value;
  } else {
    out->kind = CLINUX_LONG;
    out->index = value - 1000;
  }
  if (value < 1000 && out->kind != CLINUX_SURPLUS_ARGUMENT) return;
  // getopt_long takes abbreviations: a script that used one would break with the next new option.
  const char *word = out->word;
  if (out->kind == CLINUX_LONG && optarg && optarg == word) word = argv[optind - 2];
  const char *whole = table[out->kind == CLINUX_LONG ? out->index : optopt - 1000].name;
  const char *given = word + 2;
  size_t length = strcspn(given, "=");
  if (strlen(whole) != length || strncmp(whole, given, length)) {
    out->kind = CLINUX_UNKNOWN;
    out->letter = 0;
    out->word = word;
  }
}

int clinux_terminal_width(int fd) {
  struct winsize size;
  return ioctl(fd, TIOCGWINSZ, &size) < 0 ? -errno : size.ws_col;
}

int clinux_terminal_height(int fd) {
  struct winsize size;
  return ioctl(fd, TIOCGWINSZ, &size) < 0 ? -errno : size.ws_row;
}

int clinux_character_width(uint32_t scalar) {
  static locale_t utf8;
  if (!utf8) utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", 0);
  if (!utf8) return 1;
  locale_t before = uselocale(utf8);
  int width = wcwidth((wchar_t)scalar);
  uselocale(before);
  return width;
}
