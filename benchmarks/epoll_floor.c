/* The least a client can do: epoll, read, stamp, count events. The floor for hot_path.py.
 *
 * usage: epoll_floor PORT STREAMS TOKENS FROM_NS TO_NS STAMP_FILE
 *
 * Opens STREAMS connections, asks on each, reads until all have ended. Prints the CPU seconds
 * (user and system) spent and the events counted between FROM_NS and TO_NS of CLOCK_MONOTONIC.
 * STAMP_FILE gets the ns of every event's read on that clock, int64, stream by stream.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static char buffer[262144];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static double cpu_s(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec +
           (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static int ask(int port, int stream, int epoll) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    char request[256];
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int size = sprintf(request, "POST / HTTP/1.1\r\nHost: x\r\nX-Request-ID: %d\r\n\r\n", stream);
    if (write(fd, request, size) != size) fail("write");
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = ((uint64_t)stream << 32) | fd};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
    return fd;
}

int main(int argc, char **argv) {
    if (argc != 7) return 2;
    int port = atoi(argv[1]), streams = atoi(argv[2]), tokens = atoi(argv[3]);
    int *seen = calloc(streams, sizeof *seen);
    int64_t *stamps = calloc((size_t)streams * tokens, sizeof *stamps);
    int epoll = epoll_create1(0), open = streams;
    for (int i = 0; i < streams; i++) ask(port, i, epoll);

    int64_t from_ns = atoll(argv[4]), to_ns = atoll(argv[5]);
    double from_cpu_s = -1, spent_s = -1;
    long events = 0;
    while (open) {
        struct epoll_event ready[1024];
        int count = epoll_wait(epoll, ready, 1024, -1);
        for (int k = 0; k < count; k++) {
            int fd = (int)(ready[k].data.u64 & 0xffffffff), stream = (int)(ready[k].data.u64 >> 32);
            ssize_t size = read(fd, buffer, sizeof buffer);
            int64_t stamp_ns = now_ns();
            if (size <= 0) fail("read");
            if (from_cpu_s < 0 && stamp_ns >= from_ns) from_cpu_s = cpu_s();
            if (spent_s < 0 && stamp_ns >= to_ns) spent_s = cpu_s() - from_cpu_s;
            for (char *at = buffer; (at = memmem(at, size - (at - buffer), "\n\n", 2)); at += 2) {
                if (seen[stream] < tokens) stamps[(size_t)stream * tokens + seen[stream]++] = stamp_ns;
                events += stamp_ns >= from_ns && stamp_ns < to_ns;
            }
            if (size >= 5 && !memcmp(buffer + size - 5, "0\r\n\r\n", 5)) {
                close(fd);
                open--;
            }
        }
    }
    printf("%.6f %ld\n", spent_s, events);
    FILE *file = fopen(argv[6], "wb");
    if (!file || fwrite(stamps, sizeof *stamps, (size_t)streams * tokens, file) !=
                     (size_t)streams * tokens || fclose(file)) fail(argv[6]);
    return 0;
}
