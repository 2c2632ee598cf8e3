// The floor of the benchmark: PUT files with one curl_multi loop, several at a time, and nothing
// else: no queue, no state, nothing durable.
//
//   floor BASE_URL DIRECTORY COUNT PARALLEL     (DIRECTORY holds 00000, 00001 …)
//
// Prints the requests a second; exits 1 unless every answer was 2xx.
#include <curl/curl.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  CURL *easy;
  int fd;
} Slot;

static size_t discard(char *data, size_t size, size_t count, void *slot) { return size * count; }

static size_t read_file(char *buffer, size_t size, size_t count, void *slot) {
  ssize_t n = read(((Slot *)slot)->fd, buffer, size * count);
  return n < 0 ? CURL_READFUNC_ABORT : (size_t)n;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
  if (argc != 5) return fprintf(stderr, "floor BASE_URL DIRECTORY COUNT PARALLEL\n"), 2;
  const char *base = argv[1], *directory = argv[2];
  int count = atoi(argv[3]), parallel = atoi(argv[4]);
  curl_global_init(CURL_GLOBAL_ALL);
  CURLM *multi = curl_multi_init();
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)parallel);
  struct curl_slist *headers = curl_slist_append(NULL, "Expect:");
  Slot *slots = calloc(parallel, sizeof *slots);
  Slot **idle = calloc(parallel, sizeof *idle);
  int idle_count = 0, next = 0, good = 0, bad = 0;
  for (int i = 0; i < parallel; i++) {
    slots[i].easy = curl_easy_init();
    idle[idle_count++] = &slots[i];
  }
  double start = seconds();
  while (good + bad < count) {
    while (idle_count > 0 && next < count) {
      Slot *slot = idle[--idle_count];
      char url[512], path[512];
      snprintf(url, sizeof url, "%s/%05d", base, next);
      snprintf(path, sizeof path, "%s/%05d", directory, next++);
      struct stat facts;
      slot->fd = open(path, O_RDONLY | O_CLOEXEC);
      if (slot->fd < 0 || fstat(slot->fd, &facts) < 0) return perror(path), 1;
      curl_easy_setopt(slot->easy, CURLOPT_URL, url);
      curl_easy_setopt(slot->easy, CURLOPT_UPLOAD, 1L);
      curl_easy_setopt(slot->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)facts.st_size);
      curl_easy_setopt(slot->easy, CURLOPT_READFUNCTION, read_file);
      curl_easy_setopt(slot->easy, CURLOPT_READDATA, slot);
      curl_easy_setopt(slot->easy, CURLOPT_WRITEFUNCTION, discard);
      curl_easy_setopt(slot->easy, CURLOPT_HTTPHEADER, headers);
      curl_easy_setopt(slot->easy, CURLOPT_PRIVATE, slot);
      curl_multi_add_handle(multi, slot->easy);
    }
    int running, queued, ended = 0;
    curl_multi_perform(multi, &running);
    for (CURLMsg *message; (message = curl_multi_info_read(multi, &queued));) {
      if (message->msg != CURLMSG_DONE) continue;
      long status = 0;
      Slot *slot = NULL;
      CURLcode result = message->data.result;
      curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &slot);
      if (result == CURLE_OK && status / 100 == 2) good++;
      else bad++;
      close(slot->fd);
      curl_multi_remove_handle(multi, slot->easy);
      idle[idle_count++] = slot;
      ended = 1;
    }
    if (!ended && running) curl_multi_poll(multi, NULL, 0, 1000, NULL);
  }
  printf("%.0f\n", count / (seconds() - start));
  return bad > 0;
}
