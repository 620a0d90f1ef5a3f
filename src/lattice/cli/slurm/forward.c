/* The Slurm commands without an interpreter: the same request and answer as lattice/cli/slurm/program.py, for the usual case.
 *
 * srun has more to do than to print an answer. Its request is sent here, and its script reads the answer: the interpreter starts while
 * the servers find nodes and launch.
 *
 * For all other cases (TLS, a configuration file with more than plain lines, text that is not UTF-8, a server that does not answer
 * as expected) it starts that program in its place with the same request id, which makes a retry safe.
 * It prints only what a server answered.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

extern char **environ;

enum { CONNECT_S = 5, ANSWER_S = 120, MOST_SCRIPT = 4 << 20, MOST_FILE = 1 << 20 };

typedef struct {
    char *data;
    size_t size, room;
} Text;

static char **arguments;
static const char *program;
static char request[64], resumed[256];
static int is_sent_ahead, holds_interrupts;

static void give_up(void);

static void add_bytes(Text *text, const char *data, size_t size) {
    if (text->size + size + 1 > text->room) {
        text->room = (text->size + size + 1) * 2;
        text->data = realloc(text->data, text->room);
        if (!text->data) give_up();
    }
    memcpy(text->data + text->size, data, size);
    text->size += size;
    text->data[text->size] = 0;
}

static void add(Text *text, const char *word) { add_bytes(text, word, strlen(word)); }

/* Whether interrupts came through before. */
static int let_interrupts(int how) {
    sigset_t interrupt, before;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    return !sigprocmask(how, &interrupt, &before) && !sigismember(&before, SIGINT);
}

/* Starts the script that handles all cases; never returns. */
static void give_up(void) {
    char path[4096];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size > 0) {
        path[size] = 0;
        char *slash = strrchr(path, '/');
        if (slash && (size_t)(slash - path) + strlen(program) + 16 < sizeof path) {
            sprintf(slash, "/python/%s", program);
            if (request[0]) setenv("LATTICE_SLURM_REQUEST", request, 1);
            if (resumed[0]) setenv("LATTICE_SLURM_RESUME", resumed, 1);
            if (!is_sent_ahead) {
                unsetenv("LATTICE_SLURM_ASKED");
                if (holds_interrupts) let_interrupts(SIG_UNBLOCK);
            }
            execv(path, arguments);
        }
    }
    fprintf(stderr, "%s: error: cannot start %s: %s\n", program, path, strerror(errno));
    _exit(1);
}

/* Number of bytes of the UTF-8 character at `at`; 0 if it is invalid. */
static int utf8(const unsigned char *at) {
    unsigned char c = at[0];
    if (c < 0x80) return 1;
    int more = c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 0;
    if (!more) return 0;
    for (int i = 1; i <= more; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    if ((c == 0xe0 && at[1] < 0xa0) || (c == 0xed && at[1] > 0x9f)) return 0;
    if ((c == 0xf0 && at[1] < 0x90) || (c == 0xf4 && at[1] > 0x8f)) return 0;
    return more + 1;
}

static int is_utf8(const char *data, size_t size) {
    for (size_t i = 0; i < size;) {
        int step = utf8((const unsigned char *)data + i);
        if (!step || i + step > size) return 0;
        i += step;
    }
    return 1;
}

static void add_quoted(Text *text, const char *data, size_t size) {
    static const char hex[] = "0123456789abcdef";
    if (!is_utf8(data, size)) give_up();
    add(text, "\"");
    size_t from = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        add_bytes(text, data + from, i - from);
        char escaped[7] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15], 0};
        add(text, escaped);
        from = i + 1;
    }
    add_bytes(text, data + from, size - from);
    add(text, "\"");
}

static void add_field(Text *text, const char *name, const char *value) {
    add(text, ",\"");
    add(text, name);
    add(text, "\":");
    add_quoted(text, value, strlen(value));
}

static void add_number(Text *text, const char *name, unsigned long value) {
    char word[64];
    snprintf(word, sizeof word, ",\"%s\":%lu", name, value);
    add(text, word);
}

/* Reads the descriptor to its end, up to `most` bytes; 0 on failure. */
static int read_all(int descriptor, size_t most, Text *into) {
    char piece[65536];
    ssize_t got;
    add(into, "");
    while ((got = read(descriptor, piece, sizeof piece)) != 0) {
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 || into->size + (size_t)got > most) return 0;
        add_bytes(into, piece, (size_t)got);
    }
    return 1;
}

static int read_file(const char *path, size_t most, Text *into) {
    struct stat about;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return 0;
    int good = !fstat(descriptor, &about) && !S_ISDIR(about.st_mode) && read_all(descriptor, most, into);
    close(descriptor);
    return good;
}

static char *trimmed(char *text) {
    while (*text == ' ' || *text == '\t' || *text == '\n' || *text == '\r') text++;
    size_t size = strlen(text);
    while (size && strchr(" \t\r\n", text[size - 1])) text[--size] = 0;
    return text;
}

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static char *joined(const char *first, const char *second) {
    char *made;
    if (asprintf(&made, "%s%s", first, second) < 0) give_up();
    return made;
}

/* The server's address and the caller's token; as in place.py. */
static char *url, *token, *tenant;

static void read_lines(const char *path, char **token_file) {
    static const char *ignored[] = {"vcluster", "default_vcluster", "project", "default_project",
                                    "output_format", "color", "default_uenv", NULL};
    Text file = {0};
    struct stat about;
    if (stat(path, &about)) return;
    if (!read_file(path, MOST_FILE, &file)) give_up();
    for (char *line = strtok(file.data, "\n"); line; line = strtok(NULL, "\n")) {
        if (!*trimmed(line) || *line == '#') continue;
        char *value = strstr(line, ": ");
        if (!value) give_up();
        *value = 0;
        value = trimmed(value + 2);
        if (!*value || strchr("\"'[{&*|>!%@`#?-", *value) || strstr(value, " #")) give_up();
        int known = 0;
        for (int i = 0; ignored[i]; i++) known |= !strcmp(line, ignored[i]);
        if (known) continue;
        if (!strcmp(line, "endpoint") || !strcmp(line, "api_url")) url = strdup(value);
        else if (!strcmp(line, "tenant") || !strcmp(line, "default_tenant")) tenant = strdup(value);
        else if (!strcmp(line, "token_file")) *token_file = strdup(value);
        else give_up();
    }
}

static void read_settings(char **token_file) {
    if (variable("LATTICE_CONFIG")) give_up();
    const char *folder = variable("XDG_CONFIG_HOME"), *home = variable("HOME");
    read_lines("/etc/lattice/config.yaml", token_file);  /* of the site; the user's file overrules it */
    read_lines(folder ? joined(folder, "/lattice/config.yaml") : joined(home ? home : "", "/.config/lattice/config.yaml"), token_file);
}

static char *local_url(const char *folder) {
    Text file = {0};
    if (!read_file(joined(folder, "/cluster.json"), MOST_FILE, &file)) return NULL;
    char *at = strstr(file.data, "\"api_url\":");
    if (!at || !(at = strchr(at + 10, '"'))) return NULL;
    char *end = strchr(++at, '"');
    if (!end || memchr(at, '\\', (size_t)(end - at))) return NULL;
    *end = 0;
    while (end > at && end[-1] == '/') *--end = 0;
    return at;
}

static char *token_in(const char *path) {
    Text file = {0};
    return read_file(path, MOST_FILE, &file) && *trimmed(file.data) ? strdup(trimmed(file.data)) : NULL;
}

static void find_place(void) {
    char *token_file = NULL, *folder = (char *)variable("LATTICE_DIR");
    read_settings(&token_file);
    const char *said = variable("LATTICE_API_URL");
    if (!said) said = variable("LATTICE_ENDPOINT");
    if (said) url = strdup(said);
    if (variable("LATTICE_TENANT")) tenant = strdup(variable("LATTICE_TENANT"));
    if (variable("LATTICE_TOKEN_FILE")) token_file = strdup(variable("LATTICE_TOKEN_FILE"));
    if (variable("LATTICE_TOKEN")) token = strdup(variable("LATTICE_TOKEN"));
    else if (token_file) token = token_in(token_file);
    if (!url || !token) {
        const char *state = variable("XDG_STATE_HOME"), *home = variable("HOME");
        if (!folder)
            folder = state ? joined(state, "/lattice/local") : joined(home ? home : "", "/.local/state/lattice/local");
        char *local = local_url(folder);
        if (!token && !token_file && local && (!url || !strcmp(url, local))) token = token_in(joined(folder, "/token"));
        if (!url) url = local;
    }
    if (!url || !token) give_up();
    for (const char *c = token; *c; c++)
        if (*c <= ' ' || *c > '~') give_up();
    for (const char *c = tenant ? tenant : ""; *c; c++)
        if (*c < ' ' || *c > '~') give_up();
}

static int limited(int connection, int seconds) {
    struct timeval time = {seconds, 0};
    return setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) ||
           setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

static int dial_unix(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) return -1;
    strcpy(address.sun_path, path);
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection >= 0 && !limited(connection, CONNECT_S) && !connect(connection, (void *)&address, sizeof address))
        return connection;
    close(connection);
    return -1;
}

/* Plain http to other machines exposes the token on the network; the script refuses it unless the user allowed it. */
static int is_local(const char *host) {
    if (!strcmp(host, "localhost")) return 1;
    return !strncmp(host, "127.", 4) && strspn(host, "0123456789.") == strlen(host);
}

static int is_asked_for(void) {
    const char *said = variable("LATTICE_INSECURE_HTTP");
    return said && (!strcmp(said, "1") || !strcmp(said, "true") || !strcmp(said, "yes"));
}

static int dial(char *endpoint) {
    if (!strncmp(endpoint, "unix://", 7)) return dial_unix(endpoint + 7);
    if (!strncmp(endpoint, "http://", 7)) endpoint += 7;
    else if (strstr(endpoint, "://")) give_up();
    char *path = strchr(endpoint, '/'), *port = strrchr(endpoint, ':');
    if (path && path[1]) give_up();
    if (path) *path = 0;
    if (!port || strchr(port, ']') || *endpoint == '[') give_up();
    *port++ = 0;
    if (!is_local(endpoint) && !is_asked_for()) give_up();
    struct addrinfo wish = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    if (getaddrinfo(endpoint, port, &wish, &found)) return -1;
    for (struct addrinfo *each = found; each; each = each->ai_next) {
        int connection = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
        if (connection < 0) continue;
        if (!limited(connection, CONNECT_S) && !connect(connection, each->ai_addr, each->ai_addrlen)) {
            setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            freeaddrinfo(found);
            return connection;
        }
        close(connection);
    }
    freeaddrinfo(found);
    return -1;
}

static int connected(void) {
    char *rest = strdup(url), *saved = NULL;
    if (strstr(url, "https://")) give_up();
    for (char *each = strtok_r(rest, ",", &saved); each; each = strtok_r(NULL, ",", &saved)) {
        int connection = dial(trimmed(each));
        if (connection >= 0 && !limited(connection, ANSWER_S)) return connection;
    }
    give_up();
    return -1;
}

static void put(int descriptor, const char *data, size_t size) {
    while (size) {
        ssize_t done = write(descriptor, data, size);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return;
        data += done;
        size -= (size_t)done;
    }
}

/* A connection on which the body was sent. */
static int asked(const Text *body) {
    int connection = connected();
    Text out = {0};
    char head[512];
    add(&out, "POST /api/v1/slurm/commands HTTP/1.1\r\nhost: lattice\r\nauthorization: Bearer ");
    add(&out, token);
    if (tenant && *tenant) {
        add(&out, "\r\nx-lattice-tenant: ");
        add(&out, tenant);
    }
    snprintf(head, sizeof head, "\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %zu\r\n\r\n",
             body->size);
    add(&out, head);
    add_bytes(&out, body->data, body->size);
    for (size_t at = 0; at < out.size;) {
        ssize_t sent = send(connection, out.data + at, out.size - at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) give_up();
        at += (size_t)sent;
    }
    free(out.data);
    return connection;
}

/* Starts the script with a connection from which it reads the answer. An interrupt waits until the script notes it: before that it would
 * end this program and leave the work that was asked for. Without an answer the script asks again, under the same request id. */
static void send_ahead(const Text *body) {
    char number[16];
    holds_interrupts = let_interrupts(SIG_BLOCK);
    if (!holds_interrupts) give_up();
    int connection = asked(body);
    if (!fcntl(connection, F_SETFD, 0)) {
        snprintf(number, sizeof number, "%d", connection);
        setenv("LATTICE_SLURM_ASKED", number, 1);
        is_sent_ahead = 1;
    }
    give_up();
}

/* Sends the body and returns that of the answer. */
static char *exchanged(const Text *body) {
    int connection = asked(body);
    Text in = {0};
    if (!read_all(connection, (size_t)1 << 31, &in)) give_up();
    close(connection);
    char *end = strstr(in.data, "\r\n\r\n"), *length = strcasestr(in.data, "\r\ncontent-length: ");
    if (!end || strncmp(in.data, "HTTP/1.1 200 ", 13) || !length || length > end) give_up();
    if ((size_t)strtoul(length + 18, NULL, 10) != in.size - (size_t)(end + 4 - in.data)) give_up();
    return end + 4;
}

typedef struct {
    char *out, *err, *needs, *path, *resume;
    size_t out_size, err_size;
    int code;
} Answer;

static void add_point(Text *text, unsigned long point) {
    char c[5] = {0};
    if (point < 0x80) c[0] = (char)point;
    else if (point < 0x800) c[0] = (char)(0xc0 | point >> 6), c[1] = (char)(0x80 | (point & 63));
    else if (point < 0x10000)
        c[0] = (char)(0xe0 | point >> 12), c[1] = (char)(0x80 | (point >> 6 & 63)), c[2] = (char)(0x80 | (point & 63));
    else
        c[0] = (char)(0xf0 | point >> 18), c[1] = (char)(0x80 | (point >> 12 & 63)),
        c[2] = (char)(0x80 | (point >> 6 & 63)), c[3] = (char)(0x80 | (point & 63));
    add_bytes(text, c, point ? strlen(c) : 1);
}

static unsigned long hex4(const char *at) {
    char word[5] = {0};
    memcpy(word, at, 4);
    char *end;
    unsigned long value = strtoul(word, &end, 16);
    if (end != word + 4) give_up();
    return value;
}

/* The string after the quote at `*at`; moves `*at` past it. */
static Text text_at(char **at) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    Text text = {0};
    add(&text, "");
    if (*(*at)++ != '"') give_up();
    while (**at != '"') {
        size_t plain = strcspn(*at, "\"\\");
        add_bytes(&text, *at, plain);
        *at += plain;
        if (!**at) give_up();
        if (**at == '"') break;
        char kind = *++*at, *found = kind ? strchr(from, kind) : NULL;
        ++*at;
        if (found) {
            add_bytes(&text, to + (found - from), 1);
        } else if (kind == 'u' && strnlen(*at, 4) == 4) {
            unsigned long point = hex4(*at);
            *at += 4;
            if (point >= 0xd800 && point < 0xdc00 && !strncmp(*at, "\\u", 2) && strnlen(*at, 6) == 6) {
                point = 0x10000 + ((point - 0xd800) << 10) + (hex4(*at + 2) - 0xdc00);
                *at += 6;
            }
            add_point(&text, point);
        } else {
            give_up();
        }
    }
    ++*at;
    return text;
}

static Answer parsed(char *at) {
    Answer answer = {0};
    if (*at++ != '{') give_up();
    while (*at != '}') {
        Text name = text_at(&at), value = {0};
        long number = 0;
        if (*at++ != ':') give_up();
        if (*at == '"') value = text_at(&at);
        else number = strtol(at, &at, 10);
        if (!strcmp(name.data, "stdout")) answer.out = value.data, answer.out_size = value.size;
        else if (!strcmp(name.data, "stderr")) answer.err = value.data, answer.err_size = value.size;
        else if (!strcmp(name.data, "needs")) answer.needs = value.data;
        else if (!strcmp(name.data, "path")) answer.path = value.data;
        else if (!strcmp(name.data, "resume")) answer.resume = value.data;
        else if (!strcmp(name.data, "code")) answer.code = (int)number;
        else give_up();
        if (*at == ',') at++;
        else if (*at != '}') give_up();
    }
    return answer;
}

static int has_prefix(const char *name) {
    static const char *known[] = {"SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SACCT_", "SINFO_",
                                  "SCANCEL_", "SCONTROL_", "SPRIO_", "SSHARE_", "SSTAT_", NULL};
    for (int i = 0; known[i]; i++)
        if (!strncmp(name, known[i], strlen(known[i]))) return 1;
    return 0;
}

static int is_secret(const char *name, size_t size) {
    static const char *secrets[] = {"LATTICE_TOKEN", "LATTICE_TOKEN_FILE", "LATTICE_AGENT_TOKEN",
                                    "LATTICE_AGENT_TOKEN_FILE", NULL};
    for (int i = 0; secrets[i]; i++)
        if (strlen(secrets[i]) == size && !strncmp(name, secrets[i], size)) return 1;
    return 0;
}

static char *directory(void) {
    char *here = getcwd(NULL, 0);
    return here ? here : strdup("/");
}

/* The caller's time zone: TZ, else what the link of this machine names. */
static void add_zone(Text *body, int first) {
    char link[512];
    const char *zone = getenv("TZ");
    if (!zone) {
        ssize_t size = readlink("/etc/localtime", link, sizeof link - 1);
        if (size <= 0) return;
        link[size] = 0;
        zone = link;
    }
    if (!is_utf8(zone, strlen(zone))) return;
    add(body, first ? "\"LATTICE_TIME_ZONE\":" : ",\"LATTICE_TIME_ZONE\":");
    add_quoted(body, zone, strlen(zone));
}

static void add_environment(Text *body) {
    int all = !strcmp(program, "sbatch") || !strcmp(program, "srun"), first = 1;
    add(body, ",\"environment\":{");
    for (char **each = environ; *each; each++) {
        char *equals = strchr(*each, '=');
        if (!equals || equals == *each || is_secret(*each, (size_t)(equals - *each))) continue;
        if (!strncmp(*each, "LATTICE_TIME_ZONE=", 18) || !strncmp(*each, "LATTICE_SLURM_", 14)) continue;
        if (!(all || has_prefix(*each)) || !is_utf8(*each, strlen(*each))) continue;
        add(body, first ? "" : ",");
        add_quoted(body, *each, (size_t)(equals - *each));
        add(body, ":");
        add_quoted(body, equals + 1, strlen(equals + 1));
        first = 0;
    }
    add_zone(body, first);
    add(body, "}");
}

static void begin(Text *body) {
    struct utsname about;
    unsigned long random = 0;
    if (uname(&about) || getrandom(&random, sizeof random, 0) != sizeof random) give_up();
    snprintf(request, sizeof request, "%016lx%x", random, (unsigned)getpid());
    add(body, "{\"program\":");
    add_quoted(body, program, strlen(program));
    add(body, ",\"argv\":[");
    for (int i = 1; arguments[i]; i++) {
        add(body, i > 1 ? "," : "");
        add_quoted(body, arguments[i], strlen(arguments[i]));
    }
    add(body, "]");
    add_field(body, "cwd", directory());
    add_environment(body);
    mode_t mask = umask(022);
    umask(mask);
    add_field(body, "host", about.nodename);
    add_number(body, "uid", getuid());
    add_number(body, "gid", getgid());
    add_number(body, "umask", mask);
    add_field(body, "request_id", request);
}

static void add_script(Text *body, const char *path, const Text *script) {
    add_field(body, "script_path", path);
    add(body, ",\"script\":");
    add_quoted(body, script->data, script->size);
}

/* Opens the script here or, if its name has no slash, along PATH; its full path, or NULL. */
static char *opened(const char *name, Text *script) {
    char *found = NULL;
    if (read_file(name, MOST_SCRIPT, script)) {
        found = strdup(name);
    } else if (!strchr(name, '/') && variable("PATH")) {
        char *rest = strdup(variable("PATH")), *saved = NULL;
        for (char *each = strtok_r(rest, ":", &saved); each && !found; each = strtok_r(NULL, ":", &saved)) {
            char *path = joined(joined(each, "/"), name);
            script->size = 0;
            if (read_file(path, MOST_SCRIPT, script)) found = path;
        }
    }
    if (!found || *found == '/') return found;
    char *here = directory();
    return joined(joined(here, strcmp(here, "/") ? "/" : ""), found);
}

static int takes_nothing(const char *word) {
    static const char *flags[] = {"-H", "--hold", "--parsable", "-Q", "--quiet", "-v", "--verbose", "-W", "--wait",
                                  "--requeue", "--no-requeue", "--exclusive", "--test-only", "-O", "--overcommit", "-s",
                                  "--oversubscribe", "-k", "--no-kill", "--contiguous", "--ignore-pbs", "--spread-job",
                                  "--use-min-nodes", "--reboot", "--get-user-env", "--nice", "--propagate", NULL};
    for (int i = 0; flags[i]; i++)
        if (!strcmp(word, flags[i])) return 1;
    return 0;
}

/* The script, if the line is unambiguous; otherwise the server asks for it. */
static void add_likely_script(Text *body) {
    const char *before = NULL;
    for (int i = 1; arguments[i]; i++) {
        const char *word = arguments[i];
        if (word[0] == '-' && word[1]) {
            if (!strncmp(word, "--wrap", 6) || !strncmp(word, "--help", 6)) return;
            if (!strncmp(word, "--version", 9) || !strncmp(word, "--usage", 7)) return;
            before = word;
            continue;
        }
        int joined_value = before && (strchr(before, '=') || (before[1] != '-' && before[2]));
        if (before && !takes_nothing(before) && !joined_value) {
            before = NULL;
            continue;
        }
        Text script = {0};
        char *path = opened(word, &script);
        if (path) add_script(body, path, &script);
        return;
    }
}

/* Whether the server's requested file is a word of the command line. */
static int is_named(const char *path) {
    if (strcmp(program, "sbatch") || !*path || *path == '-') return 0;
    for (int i = 1; arguments[i]; i++)
        if (!strcmp(arguments[i], path)) return 1;
    return 0;
}

/* What the server requested. Once stdin was read, the next program gets it from memory. */
static void add_demanded(Text *body, const Answer *answer) {
    Text script = {0};
    if (strcmp(program, "sbatch")) give_up();
    if (!strcmp(answer->needs, "stdin")) {
        int good = read_all(0, MOST_SCRIPT, &script), memory = memfd_create("script", 0);
        if (memory < 0) _exit(1);
        put(memory, script.data, script.size);
        if (!good) read_all(0, (size_t)1 << 30, &script);
        lseek(memory, 0, SEEK_SET);
        dup2(memory, 0);
        if (!good) give_up();
        add_script(body, "", &script);
        return;
    }
    /* Opens only what the line names; otherwise the script reports it. */
    if (!answer->path || !is_named(answer->path)) give_up();
    char *path = opened(answer->path, &script);
    if (!path) give_up();
    add_script(body, path, &script);
}

int main(int count, char **given) {
    (void)count;
    arguments = given;
    char *slash = strrchr(given[0], '/');
    program = slash ? slash + 1 : given[0];
    if (!strcmp(program, "salloc")) give_up();
    /* A job that requests its own requeue or end is stopped by that request; it must still receive the answer. */
    if (!strcmp(program, "scontrol") || !strcmp(program, "scancel")) signal(SIGTERM, SIG_IGN);
    find_place();
    Text body = {0};
    begin(&body);
    if (!strcmp(program, "srun")) {
        add(&body, "}");
        send_ahead(&body);
    }
    size_t fixed = body.size;
    if (!strcmp(program, "sbatch")) add_likely_script(&body);
    for (;;) {
        add(&body, "}");
        Answer answer = parsed(exchanged(&body));
        if (answer.out) put(1, answer.out, answer.out_size);
        if (answer.err) put(2, answer.err, answer.err_size);
        body.size = fixed;
        if (answer.needs && *answer.needs) {
            add_demanded(&body, &answer);
        } else if (answer.resume && *answer.resume) {
            if (strlen(answer.resume) >= sizeof resumed) _exit(1);
            strcpy(resumed, answer.resume);
            add_field(&body, "resume", resumed);
        } else {
            _exit(answer.code);
        }
    }
}
