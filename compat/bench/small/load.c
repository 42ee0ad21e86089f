/* A closed loop from one thread: N connections send the same frame again as soon as its answer has come.

     load ADDRESS PORT FRAME ERROR_AT CONNECTIONS SLICES MS PID [NEXT SESSION_AT]      after a warm-up SLICES times MS milliseconds
     load ADDRESS PORT FRAME ERROR_AT CONNECTIONS 0 REQUESTS PID [NEXT SESSION_AT]     so many, and nothing is timed

   FRAME is a file with a whole request, ERROR_AT the byte of an answer at which its error code stands (16 bits). PID is the
   process whose time on a CPU is told, from Linux's schedstat, where a thread's time is exact; 0 for none.

   NEXT is a file with what is sent instead after the first answer, for a fetch in a session: the id that the answer gives behind
   its error code (32 bits) is put at byte SESSION_AT, and behind it 1, 2, 3 ... (32 bits). All answers have the same size.

   Prints a line a slice: requests, nanoseconds of the slice, of the process on a CPU, of the median and of the 99th
   percentile of the waits; then `each` and the fewest and the median requests of a connection. For who counts what the
   broker does: BEFORE requests of each connection (a broker may treat the first ones of each differently), `ready`, and with a
   line on standard input the others, `done`, and with a further one the end. An error of the broker, a closed connection or a minute without an answer end it with a word on
   standard error. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 10, ANSWER_MAX = 1 << 20, EVENTS = 256, WARM_UP_MS = 1000, SILENCE_MS = 60000, STEPS = 32, BUCKETS = 60 * STEPS, BEFORE = 10 };

struct connection {
    int socket;
    int got;                      /* bytes of the answer so far */
    int64_t sent_ns;
    uint64_t answers;
    unsigned char head[HEAD];     /* size, error code, session id: kept, as an answer may come in pieces */
    unsigned char session[4];
    uint32_t epoch;               /* of the session; 0 before there is one */
    int error;
};

static unsigned char frame[ANSWER_MAX], next[ANSWER_MAX], answer[ANSWER_MAX];
static int frame_bytes, next_bytes, error_at, session_at, answer_bytes;
static uint64_t waits[BUCKETS];

static void end(const char *what)
{
    fprintf(stderr, "%s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Of all threads together; one that ended meanwhile is not counted. */
static int64_t cpu_ns(const char *pid)
{
    char path[300];
    int64_t sum = 0;
    snprintf(path, sizeof path, "/proc/%s/task", pid);
    DIR *threads = opendir(path);
    if (threads == NULL)
        end("no such process");
    for (struct dirent *thread; (thread = readdir(threads)) != NULL;) {
        long long spent_ns;
        snprintf(path, sizeof path, "/proc/%s/task/%s/schedstat", pid, thread->d_name);
        FILE *file = thread->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (file == NULL)
            continue;
        if (fscanf(file, "%lld", &spent_ns) == 1)
            sum += spent_ns;
        fclose(file);
    }
    closedir(threads);
    return sum;
}

/* A power of two has STEPS buckets, so a percentile is right to three percent. */
static int bucket_of(uint64_t ns)
{
    int shift = ns < STEPS ? 0 : 58 - __builtin_clzll(ns);
    return shift * STEPS + (int)(ns >> shift);
}

static uint64_t ns_of(int bucket)
{
    return bucket < 2 * STEPS ? (uint64_t)bucket : (uint64_t)(bucket % STEPS + STEPS) << (bucket / STEPS - 1);
}

static uint64_t percentile(double part, uint64_t all)
{
    uint64_t left = (uint64_t)(part * all);
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        if (left < waits[bucket])
            return ns_of(bucket);
        left -= waits[bucket];
    }
    return 0;
}

static void ask(struct connection *on)
{
    int is_next = next_bytes && on->epoch, bytes = is_next ? next_bytes : frame_bytes;
    if (is_next) {
        uint32_t epoch = htonl(on->epoch);
        memcpy(next + session_at, on->session, sizeof on->session);
        memcpy(next + session_at + sizeof on->session, &epoch, sizeof epoch);
    }
    on->got = 0;
    on->sent_ns = now_ns();
    for (int at = 0; at < bytes;) {
        ssize_t sent = send(on->socket, (is_next ? next : frame) + at, bytes - at, MSG_NOSIGNAL);
        struct pollfd writable = {.fd = on->socket, .events = POLLOUT};
        if (sent > 0)
            at += sent;
        else if (errno != EAGAIN || poll(&writable, 1, SILENCE_MS) <= 0)
            end("a request was not sent");
    }
}

/* Whether the answer is whole now. */
static int take(struct connection *on)
{
    ssize_t count = recv(on->socket, answer, sizeof answer, 0);
    if (count < 0 && errno == EAGAIN)
        return 0;
    if (count <= 0)
        end("the broker closed a connection");
    for (int at = 0; at < count; at++) {
        int place = on->got + at;
        if (place < 4)
            on->head[place] = answer[at];
        if (place >= error_at && place < error_at + HEAD - 4)
            on->head[4 + place - error_at] = answer[at];
        if (place >= error_at + HEAD - 4)
            break;
    }
    on->got += count;
    if (on->got < 4)
        return 0;
    int size = 4 + (on->head[0] << 24 | on->head[1] << 16 | on->head[2] << 8 | on->head[3]);
    if (on->got < size)
        return 0;
    errno = 0;
    if (on->got > size || size < error_at + 2)
        end("an answer of another size than it says");
    if (on->head[4] << 8 | on->head[5])
        fprintf(stderr, "error code %d of %d bytes: ", on->head[4] << 8 | on->head[5], size), end("an answer with an error code");
    if (answer_bytes && size != answer_bytes)
        end("an answer of another size than the one before");
    answer_bytes = size;
    if (!on->epoch++)
        memcpy(on->session, on->head + 6, sizeof on->session);
    return 1;
}

static int by_answers(const void *left, const void *right)
{
    uint64_t a = ((const struct connection *)left)->answers, b = ((const struct connection *)right)->answers;
    return (a > b) - (a < b);
}

/* Say where we are, and wait for a word. */
static void tell(const char *what)
{
    puts(what);
    fflush(stdout);
    if (getchar() == EOF)
        exit(1);
}

static int read_file(const char *path, unsigned char *into)
{
    int file = open(path, O_RDONLY), bytes = file < 0 ? -1 : (int)read(file, into, ANSWER_MAX);
    if (bytes <= 0)
        end(path);
    return bytes;
}

int main(int count, char **arguments)
{
    if (count != 9 && count != 11)
        end("load ADDRESS PORT FRAME ERROR_AT CONNECTIONS SLICES MS|REQUESTS PID [NEXT SESSION_AT]");
    frame_bytes = read_file(arguments[3], frame);
    if (count > 9) {
        next_bytes = read_file(arguments[9], next);
        session_at = atoi(arguments[10]);
    }
    error_at = atoi(arguments[4]);
    int connections = atoi(arguments[5]), slices = atoi(arguments[6]);
    int64_t slice_ns = atoll(arguments[7]) * 1000000LL;
    uint64_t most = slices ? UINT64_MAX / 2 : strtoull(arguments[7], NULL, 10);
    const char *pid = strcmp(arguments[8], "0") ? arguments[8] : NULL;

    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[2]))};
    if (inet_pton(AF_INET, arguments[1], &to.sin_addr) != 1)
        end("no IPv4 address");
    struct connection *all = calloc(connections, sizeof *all);
    int poller = epoll_create1(0), one = 1;
    for (int number = 0; number < connections; number++) {
        struct connection *on = &all[number];
        on->socket = socket(AF_INET, SOCK_STREAM, 0);
        if (on->socket < 0 || connect(on->socket, (struct sockaddr *)&to, sizeof to) < 0)
            end("no connection");
        setsockopt(on->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fcntl(on->socket, F_SETFL, O_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = on};
        epoll_ctl(poller, EPOLL_CTL_ADD, on->socket, &event);
    }
    uint64_t asked = 0, answered = 0, first = slices ? 0 : (uint64_t)connections * BEFORE;
    for (; asked < (uint64_t)connections; asked++)
        ask(&all[asked]);

    int64_t begun_ns = now_ns(), begun_cpu_ns = 0, until_ns = begun_ns + WARM_UP_MS * 1000000LL;
    int slice = slices ? -1 : 0; /* the warm-up */
    while (answered < first + most) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(poller, events, EVENTS, SILENCE_MS);
        if (ready == 0)
            end("no answer for a minute");
        for (int number = 0; number < ready; number++) {
            struct connection *on = events[number].data.ptr;
            if (!take(on))
                continue;
            int64_t took_ns = now_ns() - on->sent_ns;
            waits[bucket_of(took_ns)]++;
            on->answers++;
            answered++;
            if (!first || asked < first || (answered > first && asked < first + most)) {
                ask(on);
                asked++;
            }
        }
        if (!slices && answered == first && asked == first) {
            tell("ready");
            for (int number = 0; number < connections && asked < first + most; number++, asked++)
                ask(&all[number]);
        }
        int64_t present_ns = now_ns();
        if (!slices || present_ns < until_ns)
            continue;
        int64_t present_cpu_ns = pid ? cpu_ns(pid) : 0;
        if (slice >= 0)
            printf("%llu %lld %lld %llu %llu\n", (unsigned long long)answered, (long long)(present_ns - begun_ns),
                   (long long)(present_cpu_ns - begun_cpu_ns), (unsigned long long)percentile(0.5, answered),
                   (unsigned long long)percentile(0.99, answered));
        else
            for (int number = 0; number < connections; number++)
                all[number].answers = 0;
        if (++slice == slices)
            break;
        memset(waits, 0, sizeof waits);
        answered = 0;
        begun_ns = present_ns, begun_cpu_ns = present_cpu_ns, until_ns = begun_ns + slice_ns;
    }
    if (!slices) {
        tell("done");
        return 0;
    }
    qsort(all, connections, sizeof *all, by_answers);
    printf("each %llu %llu\n", (unsigned long long)all[0].answers, (unsigned long long)all[connections / 2].answers);
    return 0;
}
