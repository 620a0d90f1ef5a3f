/* `lattice` without the start of Python: hands its line to a warm interpreter, which has the command in memory already.
 *
 * That process (interpreter.py) belongs to the same user and differs from the caller in nothing that counts, see key_of_caller(). It
 * gets the caller's streams and directory as descriptors, the umask and the environment, and runs the code of the Python command.
 * Where none is there, and for all other commands, this program starts the Python command in its place. It prints nothing of its own
 * unless the other side died in the middle of a command.
 *
 * FOLDER is the directory that `lattice compat-aliases` filled, PYTHON the interpreter; both are set by the compiler's -D.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

extern char **environ;

enum { MAX_BYTES = 8 << 20, GREETING_MS = 500, STREAMS = 3 };

static const char *const SERVED[] = {"status", "submit", "run", "logs", "cancel", "explain", "nodes", NULL};
static const int PASSED[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGWINCH, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP, 0};

static char **arguments;
static char program[4096]; /* as the kernel would name a script in our place */
static volatile sig_atomic_t worker, last_signal;

/* Starts the Python command; never returns. */
static void give_up(void) {
    setenv("LATTICE_PROGRAM", program, 1);
    execv(FOLDER "/python/lattice", arguments);
    fprintf(stderr, "lattice: error: cannot start %s: %s\n", FOLDER "/python/lattice", strerror(errno));
    _exit(1);
}

typedef struct {
    char *data;
    size_t size, room;
} Text;

static void add_bytes(Text *text, const void *data, size_t size) {
    if (text->size + size > MAX_BYTES) give_up();
    if (text->size + size > text->room) {
        text->room = (text->size + size) * 2;
        text->data = realloc(text->data, text->room);
        if (!text->data) give_up();
    }
    memcpy(text->data + text->size, data, size);
    text->size += size;
}

/* With its final zero. */
static void add(Text *text, const char *word) { add_bytes(text, word, strlen(word) + 1); }

static int is_served(const char *word) {
    for (int i = 0; SERVED[i]; i++)
        if (!strcmp(SERVED[i], word)) return 1;
    return 0;
}

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* The warm interpreter reads every text as UTF-8; with another character set the Python command would not. */
static int speaks_utf8(void) {
    const char *said = variable("LC_ALL");
    if (!said) said = variable("LC_CTYPE");
    if (!said) said = variable("LANG");
    return !said || !strcmp(said, "C") || !strcmp(said, "POSIX") || strcasestr(said, "utf-8") || strcasestr(said, "utf8");
}

/* Variables that change how Python itself works. */
static int leaves_python_alone(void) {
    static const char *const harmless[] = {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", NULL};
    for (char **each = environ; *each; each++) {
        if (strncmp(*each, "PYTHON", 6)) continue;
        size_t size = strcspn(*each, "=");
        int known = 0;
        for (int i = 0; harmless[i]; i++) known |= strlen(harmless[i]) == size && !strncmp(*each, harmless[i], size);
        if (!known) return 0;
    }
    return 1;
}

/* Open files of this process, as a shell writes them for `<(command)`, are not open in another. */
static int names_descriptors(const char *word) {
    return strstr(word, "/dev/fd/") || strstr(word, "/proc/self/") || strstr(word, "/proc/thread-self/");
}

static int is_wanted(int count) {
    const char *said = variable("LATTICE_WARM");
    if (said && (!strcmp(said, "off") || !strcmp(said, "no") || !strcmp(said, "0"))) return 0;
    /* Work must not leave a process behind, and a program with borrowed rights must not lend them on. */
    if (variable("LATTICE_ALLOC_ID") || getauxval(AT_SECURE)) return 0;
    if (count < 2 || !is_served(arguments[1]) || !speaks_utf8() || !leaves_python_alone()) return 0;
    for (int i = 0; i < STREAMS; i++)
        if (fcntl(i, F_GETFD) < 0) return 0;
    /* In the background a read from the terminal stops Python; the interpreter, of another session, would take what is typed for the shell. */
    pid_t foreground = tcgetpgrp(STDIN_FILENO);
    if (foreground > 0 && foreground != getpgrp()) return 0;
    for (int i = 1; i < count; i++)
        if (names_descriptors(arguments[i])) return 0;
    return 1;
}

static unsigned long long hashed(unsigned long long hash, const char *data, size_t size) {
    for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)data[i]) * 0x100000001b3ULL;
    return hash;
}

static ssize_t content(const char *path, char *into, size_t room) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t size = 0, got;
    while ((size_t)size + 1 < room && (got = read(file, into + size, room - 1 - (size_t)size)) > 0) size += got;
    close(file);
    into[size] = 0;
    return size;
}

/* Everything that a process inherits and a request cannot carry: rights, namespaces, limits, and the installation. */
static unsigned long long key_of_caller(void) {
    static const char *const files[] = {"/proc/self/limits", "/proc/self/loginuid", "/proc/self/attr/current", NULL};
    static const char *const links[] = {"/proc/self/ns/mnt", "/proc/self/ns/net", "/proc/self/ns/pid", "/proc/self/ns/user",
                                        "/proc/self/ns/uts", "/proc/self/ns/cgroup", "/proc/self/root", "/proc/self/exe", NULL};
    static const char *const lines[] = {"Uid:", "Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:",
                                        "NoNewPrivs:", "Seccomp:", "Cpus_allowed:", NULL};
    char text[16384];
    unsigned long long hash = hashed(0xcbf29ce484222325ULL, FOLDER, sizeof FOLDER);
    for (int i = 0; files[i]; i++) hash = hashed(hash, text, (size_t)content(files[i], text, sizeof text));
    for (int i = 0; links[i]; i++) {
        ssize_t size = readlink(links[i], text, sizeof text);
        if (size <= 0) give_up();
        hash = hashed(hash, text, (size_t)size);
    }
    if (!content("/proc/self/status", text, sizeof text)) give_up();
    for (char *saved, *line = strtok_r(text, "\n", &saved); line; line = strtok_r(NULL, "\n", &saved))
        for (int i = 0; lines[i]; i++)
            if (!strncmp(line, lines[i], strlen(lines[i]))) hash = hashed(hash, line, strlen(line));
    int niceness = getpriority(PRIO_PROCESS, 0); /* what was made nicer cannot be undone for the next caller */
    return hashed(hash, (const char *)&niceness, sizeof niceness);
}

/* A directory that only this user can write to; 0 where there is none. */
static int find_folder(char *into, size_t room) {
    const char *runtime = variable("XDG_RUNTIME_DIR");
    struct stat about;
    if (runtime && *runtime == '/' && !stat(runtime, &about) && about.st_uid == geteuid() && !(about.st_mode & 022))
        snprintf(into, room, "%s/lattice", runtime);
    else
        snprintf(into, room, "/tmp/lattice-%u", (unsigned)geteuid());
    if (mkdir(into, 0700) && errno != EEXIST) return 0;
    return !lstat(into, &about) && S_ISDIR(about.st_mode) && about.st_uid == geteuid() && !(about.st_mode & 077);
}

static int connected(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t size = sizeof peer;
    struct timeval patience = {0, GREETING_MS * 1000};
    strcpy(address.sun_path, path);
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0) return -1;
    if (!setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) &&
        !setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) &&
        !connect(connection, (void *)&address, sizeof address) &&
        !getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.uid == geteuid())
        return connection;
    close(connection);
    return -1;
}

static void close_others(void) {
    DIR *open_ones = opendir("/proc/self/fd");
    if (!open_ones) _exit(1);
    for (struct dirent *each; (each = readdir(open_ones));) {
        int number = atoi(each->d_name);
        if (number > STREAMS && number != dirfd(open_ones)) close(number);
    }
    closedir(open_ones);
}

/* A warm interpreter in the background, unless another command does it at this moment: the lock is held as long as it lives. */
static void start_interpreter(const char *path) {
    char lock[sizeof(((struct sockaddr_un *)0)->sun_path) + 8], home[4096];
    snprintf(lock, sizeof lock, "%s.lock", path);
    int held = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (held < 0) return;
    if (flock(held, LOCK_EX | LOCK_NB) || fork()) {
        close(held);
        return;
    }
    setsid();
    if (fork()) _exit(0);
    int nothing = open("/dev/null", O_RDWR);
    for (int i = 0; i < STREAMS; i++) dup2(nothing, i);
    dup2(held, STREAMS);
    fcntl(STREAMS, F_SETFD, 0); /* it may have had that number already */
    close_others();
    if (chdir("/")) _exit(1);
    umask(077);
    for (int i = 1; i < 32; i++) signal(i, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    snprintf(home, sizeof home, "HOME=%s", variable("HOME") ? variable("HOME") : "/");
    char *const words[] = {PYTHON, "-I", "-X", "utf8", "-m", "lattice.cli.warm.interpreter", (char *)path, NULL};
    char *const variables[] = {"PATH=/usr/local/bin:/usr/bin:/bin", home, NULL};
    execve(PYTHON, words, variables);
    _exit(1);
}

static void pass_on(int number) {
    if (number != SIGTSTP && number != SIGWINCH) last_signal = number; /* these two end nothing */
    /* What a terminal sends goes to all processes of the command, a pager for example. */
    int is_for_all = number != SIGTERM && number != SIGUSR1 && number != SIGUSR2 && number != SIGALRM;
    pid_t whom = is_for_all ? -worker : worker;
    if (number != SIGTSTP) {
        kill(whom, number);
        return;
    }
    kill(-worker, SIGSTOP);
    raise(SIGSTOP);
    kill(-worker, SIGCONT);
    kill(-worker, SIGWINCH); /* the window may have changed meanwhile */
}

static void pass_signals_on(void) {
    struct sigaction handler = {.sa_handler = pass_on, .sa_flags = SA_RESTART}, before;
    for (int i = 0; PASSED[i]; i++)
        if (!sigaction(PASSED[i], NULL, &before) && before.sa_handler != SIG_IGN) sigaction(PASSED[i], &handler, NULL);
}

/* The whole request, the descriptors with its first byte. A receiver that did not get all of it does nothing. */
static int send_request(int connection, const Text *request) {
    int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (here < 0) return 0;
    int passed[STREAMS + 1] = {0, 1, 2, here};
    char control[CMSG_SPACE(sizeof passed)] = {0};
    struct iovec piece = {request->data, request->size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof passed);
    memcpy(CMSG_DATA(head), passed, sizeof passed);
    ssize_t sent = sendmsg(connection, &message, MSG_NOSIGNAL);
    if (sent <= 0) return 0;
    for (size_t at = (size_t)sent; at < request->size; at += (size_t)sent) {
        sent = send(connection, request->data + at, request->size - at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) sent = 0;
        else if (sent <= 0) return 0;
    }
    return 1;
}

static Text request_of(int count) {
    Text body = {0}, whole = {0};
    char words[64];
    mode_t mask = umask(022);
    umask(mask);
    snprintf(words, sizeof words, "%o", (unsigned)mask);
    add(&body, words);
    add(&body, program);
    snprintf(words, sizeof words, "%d", count - 1);
    add(&body, words);
    for (int i = 1; i < count; i++) add(&body, arguments[i]);
    for (char **each = environ; *each; each++) add(&body, *each);
    snprintf(words, sizeof words, "%08zx", body.size);
    add_bytes(&whole, words, 8);
    add_bytes(&whole, body.data, body.size);
    return whole;
}

/* Ends as the interpreter says; without a word from it, by the signal that ended it. */
static void end_with_it(int connection) {
    unsigned char code;
    struct timeval for_ever = {0, 0};
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof for_ever);
    ssize_t got;
    while ((got = read(connection, &code, 1)) < 0 && errno == EINTR) {}
    if (got == 1) _exit(code);
    if (last_signal) {
        signal(last_signal, SIG_DFL);
        raise(last_signal);
    }
    fprintf(stderr, "error: the command was killed; it may have taken effect\n");
    _exit(1);
}

int main(int count, char **words) {
    const char *called = (const char *)getauxval(AT_EXECFN);
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)], folder[4096], greeting[16];
    arguments = words;
    snprintf(program, sizeof program, "%s", called ? called : "lattice");
    if (!is_wanted(count) || !find_folder(folder, sizeof folder)) give_up();
    int size = snprintf(path, sizeof path, "%s/%016llx", folder, key_of_caller());
    if (size < 0 || (size_t)size >= sizeof path) give_up();
    int connection = connected(path);
    /* It greets first: as long as it has not, nothing was asked of it. */
    ssize_t got = connection < 0 ? -1 : recv(connection, greeting, sizeof greeting - 1, 0);
    if (got < 2 || greeting[got - 1] != '\n') {
        start_interpreter(path);
        give_up();
    }
    greeting[got] = 0;
    worker = atoi(greeting);
    Text request = request_of(count);
    if (worker <= 1) give_up();
    pass_signals_on();
    if (!send_request(connection, &request)) {
        for (int i = 0; PASSED[i]; i++) {
            struct sigaction now;
            if (!sigaction(PASSED[i], NULL, &now) && now.sa_handler == pass_on) signal(PASSED[i], SIG_DFL);
        }
        if (last_signal) raise(last_signal); /* it ended the interpreter's side before that had asked for anything */
        give_up();
    }
    end_with_it(connection);
    return 1;
}
