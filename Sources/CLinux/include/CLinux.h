#ifndef CLINUX_H
#define CLINUX_H
#include <stdint.h>
// Linux calls that Swift's Glibc module does not show, with plain integer types.
// Unless it says otherwise, each returns the call's result, or -errno.

struct clinux_facts {
  uint64_t device, inode, size;
  int64_t mtime_ns, ctime_ns, birth_ns;  // birth_ns < 0: this filesystem keeps none
  uint32_t mode, links, uid, gid;
};
int clinux_statx(int directory, const char *path, int flags, struct clinux_facts *out);
int clinux_renameat2(int from, const char *name, int to, const char *other, unsigned flags);
int clinux_openat2(int directory, const char *path, uint64_t flags, uint64_t resolve);
int clinux_syncfs(int fd);
// 0: no process on this machine has the file open for writing; the lease is given back at once.
int clinux_no_writer(int fd);
// Reads what is in the page cache, without waiting for a disk: -EAGAIN when it would wait.
int64_t clinux_read_cached(int fd, void *buffer, uint64_t count, int64_t offset);
// The filesystem's magic number (statfs(2)), 0 and -errno in *error when it can't be had.
int64_t clinux_filesystem_type(int fd, int *error);
struct clinux_space {
  uint64_t free_bytes, total_bytes, free_inodes, total_inodes;
};
int clinux_space(int fd, struct clinux_space *out);
int64_t clinux_getdents(int fd, void *buffer, uint64_t size);

const char *clinux_errno_text(int code);  // the C library's words; NULL for none

int clinux_eventfd(void);
int clinux_signalfd(uint64_t signals);  // a bit mask of signal numbers; blocks them, too
int clinux_signalfd_read(int fd);       // the signal's number
int clinux_pidfd_open(int pid);
int clinux_inotify(void);
int clinux_inotify_add(int fd, const char *path, uint32_t mask);
// Bytes that the other side's kernel has acknowledged on a TCP socket (tcp(7), TCP_INFO).
int64_t clinux_bytes_acknowledged(int socket);
// Bytes that a TCP socket has taken and that aren't acknowledged yet (tcp(7), SIOCOUTQ).
int clinux_bytes_queued(int socket);

// One step of getopt_long(3), permuting argv as it does. `options` are the long ones, with a space
// between them and ":" behind those that take an argument ("spool: drain help"); `letters` are the
// short ones as getopt(3) wants them. Long names must be whole: no abbreviations.
enum {
  CLINUX_END,               // no more options: argv from `next` on are the operands
  CLINUX_LONG,              // long option number `index`, `argument` if it takes one
  CLINUX_LETTER,            // the short option `letter`, `argument` if it takes one
  CLINUX_UNKNOWN,           // `word` is no option; `letter` if it is a short one, else 0
  CLINUX_MISSING_ARGUMENT,  // of the option in `word`
  CLINUX_SURPLUS_ARGUMENT   // `word` has a value that the option doesn't take
};
struct clinux_option {
  int kind, index, letter, next;
  const char *argument, *word;
};
// `first`: begin anew. Not for more than one thread at a time.
void clinux_getopt(int argc, char **argv, const char *letters, const char *options, int first,
                   struct clinux_option *out);

int clinux_terminal_width(int fd);   // columns (tty_ioctl(4), TIOCGWINSZ)
int clinux_terminal_height(int fd);  // rows
// Columns that a character takes on a terminal (wcwidth(3)), whatever the locale; -1: a control.
int clinux_character_width(uint32_t scalar);

enum {
  CLINUX_NOREPLACE = 1,
  CLINUX_EMPTY_PATH = 0x1000,
  CLINUX_NOFOLLOW = 0x100,
  CLINUX_BENEATH = 8,
  CLINUX_PATH = 010000000,
  CLINUX_NO_MAGICLINKS = 2
};
#endif
