#ifndef CCURL_SHIM_H
#define CCURL_SHIM_H
#include <curl/curl.h>
#include <stdint.h>

// Swift can't call variadic C functions: each option type gets its own function, so that libcurl
// finds the exact type that it reads (a `long` where it wants a `long`).

typedef size_t (*ccurl_io)(char *, size_t, size_t, void *);
typedef int (*ccurl_seek)(void *, curl_off_t, int);

static inline CURLcode ccurl_set_long(CURL *h, CURLoption o, long v) {
  return curl_easy_setopt(h, o, v);
}
static inline CURLcode ccurl_set_off(CURL *h, CURLoption o, int64_t v) {
  return curl_easy_setopt(h, o, (curl_off_t)v);
}
static inline CURLcode ccurl_set_ptr(CURL *h, CURLoption o, const void *v) {
  return curl_easy_setopt(h, o, v);
}
static inline CURLcode ccurl_set_str(CURL *h, CURLoption o, const char *v) {
  return curl_easy_setopt(h, o, v);
}
static inline CURLcode ccurl_set_list(CURL *h, CURLoption o, struct curl_slist *v) {
  return curl_easy_setopt(h, o, v);
}
static inline CURLcode ccurl_set_mime(CURL *h, curl_mime *v) {
  return curl_easy_setopt(h, CURLOPT_MIMEPOST, v);
}
static inline CURLcode ccurl_set_io(CURL *h, CURLoption o, ccurl_io v) {
  return curl_easy_setopt(h, o, v);
}
static inline CURLcode ccurl_set_seek(CURL *h, ccurl_seek v) {
  return curl_easy_setopt(h, CURLOPT_SEEKFUNCTION, v);
}
static inline CURLcode ccurl_set_sockets(
    CURL *h, curl_opensocket_callback open, curl_closesocket_callback close) {
  CURLcode code = curl_easy_setopt(h, CURLOPT_OPENSOCKETFUNCTION, open);
  return code ? code : curl_easy_setopt(h, CURLOPT_CLOSESOCKETFUNCTION, close);
}
// Our number for a transfer travels as the pointer that callbacks get.
static inline CURLcode ccurl_set_id(CURL *h, CURLoption o, intptr_t v) {
  return curl_easy_setopt(h, o, (void *)v);
}
static inline intptr_t ccurl_id(CURL *h) {
  char *v = 0;
  curl_easy_getinfo(h, CURLINFO_PRIVATE, &v);
  return (intptr_t)v;
}
static inline CURLcode ccurl_mime_source(
    curl_mimepart *part, int64_t size, ccurl_io read, ccurl_seek seek, intptr_t id) {
  return curl_mime_data_cb(part, size, read, seek, 0, (void *)id);
}

static inline long ccurl_get_long(CURL *h, CURLINFO i) {
  long v = 0;
  curl_easy_getinfo(h, i, &v);
  return v;
}
static inline int64_t ccurl_get_off(CURL *h, CURLINFO i) {
  curl_off_t v = 0;
  curl_easy_getinfo(h, i, &v);
  return v;
}
// NULL when there is none; it lives until the handle's next use.
static inline const char *ccurl_get_str(CURL *h, CURLINFO i) {
  char *v = 0;
  curl_easy_getinfo(h, i, &v);
  return v;
}

static inline CURLMcode ccurl_multi_long(CURLM *m, CURLMoption o, long v) {
  return curl_multi_setopt(m, o, v);
}
// The next finished transfer's handle, or NULL; its result in *r.
static inline CURL *ccurl_next_done(CURLM *m, CURLcode *r) {
  int left;
  CURLMsg *g;
  while ((g = curl_multi_info_read(m, &left)))
    if (g->msg == CURLMSG_DONE) {
      *r = g->data.result;
      return g->easy_handle;
    }
  return 0;
}
#endif
