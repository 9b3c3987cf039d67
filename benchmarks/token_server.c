/* A server that emits prebuilt token events on time, for benchmarks/hot_path.py.
 *
 * usage: token_server STREAMS TOKENS INTERVAL_US BURST STAMP_FILE FIRST_NS TURN_TOKENS TURNS
 *
 * Prints its port, accepts STREAMS connections, reads one request on each (the stream's index is
 * in its X-Request-ID), and from FIRST_NS on emits TOKENS chunked SSE events a stream, one every
 * INTERVAL_US: spread evenly over the interval, or all at once where BURST is 1. Of TURNS servers
 * that take turns it is one: after every TURN_TOKENS it pauses while the others emit theirs. One
 * second after the last token it ends every response, and waits until every client has closed, as a
 * server that keeps connections alive. STAMP_FILE gets the CLOCK_MONOTONIC ns of every write, int64,
 * stream by stream. It serves one such round and exits.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char HEAD[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
static const char TOKEN[] =
    "data: {\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":"
    "\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"served-model-name\","
    "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"logprobs\":null,"
    "\"finish_reason\":null}]}\n\n";
static const char LAST[] =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":%d}}\n\n"
    "data: [DONE]\n\n";

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void sleep_until(int64_t when_ns) {
    struct timespec t = {when_ns / 1000000000LL, when_ns % 1000000000LL};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static int chunk(char *to, const char *data) {
    return sprintf(to, "%zx\r\n%s\r\n", strlen(data), data);
}

static void send_all(int fd, const char *data, int size) {
    if (send(fd, data, size, MSG_NOSIGNAL) != size) fail("send");
}

static int listen_on_loopback(int streams) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, streams)) fail("listen");
    getsockname(fd, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* Accept and read requests (each small enough for one read); fds are ordered by stream index. */
static void accept_all(int listener, int *fds, int streams) {
    for (int n = 0; n < streams; n++) {
        char request[4096];
        int one = 1, fd = accept(listener, NULL, NULL);
        if (fd < 0) fail("accept");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        ssize_t size = read(fd, request, sizeof request - 1);
        request[size > 0 ? size : 0] = 0;
        char *id = strstr(request, "X-Request-ID: ");
        if (!id) fail("request without id");
        fds[atoi(id + 14)] = fd;
        send_all(fd, HEAD, sizeof HEAD - 1);
    }
}

int main(int argc, char **argv) {
    if (argc != 9) return 2;
    int streams = atoi(argv[1]), tokens = atoi(argv[2]), burst = atoi(argv[4]);
    int64_t interval_ns = atoll(argv[3]) * 1000, first_ns = atoll(argv[6]);
    int turn_tokens = atoi(argv[7]), turns = atoi(argv[8]);
    int *fds = calloc(streams, sizeof *fds);
    int64_t *stamps = calloc((size_t)streams * tokens, sizeof *stamps);
    accept_all(listen_on_loopback(streams), fds, streams);

    char event[2048], text[1024], end[2048];
    int event_size = chunk(event, TOKEN);
    if (now_ns() > first_ns) {
        fprintf(stderr, "the streams were not there in time\n");
        return 1;
    }
    for (int token = 0; token < tokens; token++) {
        int waited = token / turn_tokens * turn_tokens * (turns - 1);
        int64_t step_ns = first_ns + interval_ns * (token + waited);
        for (int i = 0; i < streams; i++) {
            int64_t offset_ns = burst ? 0 : interval_ns * i / streams;
            sleep_until(step_ns + offset_ns);
            stamps[(size_t)i * tokens + token] = now_ns();
            send_all(fds[i], event, event_size);
        }
    }
    sleep_until(now_ns() + 1000000000LL);
    snprintf(text, sizeof text, LAST, tokens);
    int end_size = chunk(end, text);
    end_size += sprintf(end + end_size, "0\r\n\r\n");
    for (int i = 0; i < streams; i++) send_all(fds[i], end, end_size);

    for (int i = 0; i < streams; i++)
        while (read(fds[i], end, sizeof end) > 0) {}

    FILE *file = fopen(argv[5], "wb");
    if (!file || fwrite(stamps, sizeof *stamps, (size_t)streams * tokens, file) !=
                     (size_t)streams * tokens || fclose(file)) fail(argv[5]);
    return 0;
}
