// launcher.cpp - bin/pith, or bin/pith-lab, of an installed tree that brings its own C library: starts the program through that
// library's loader. A program names its loader by an absolute path, so one that may be unpacked anywhere cannot name one beside
// it. This one needs neither: it is linked statically, finds the tree from its own place, and becomes the program.
#include <linux/limits.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

// PITH_LIBRARY_FOLDER is "lib/pith", PITH_PROGRAM_NAME "pith" or "pith-lab". The loader's second name is what `ps` and `top`
// show.
constexpr char kLoader[] = PITH_LIBRARY_FOLDER "/runtime/" PITH_PROGRAM_NAME;
constexpr char kProgram[] = PITH_LIBRARY_FOLDER "/" PITH_PROGRAM_NAME;
constexpr int kFailed = 126;  // as shells have it where a program is there and cannot be started

int fail(const char * what, const char * path) {
    std::fprintf(stderr, "pith: %s '%s': %s; unpack or install " PITH_PROGRAM_NAME " again\n", what, path,
                 std::strerror(errno));
    return kFailed;
}

// The folder above bin/; false where it is unknown or too long.
bool find_root(char (&root)[PATH_MAX]) {
    const ssize_t length = readlink("/proc/self/exe", root, sizeof root - 1);
    if (length <= 0) { return false; }
    root[length] = '\0';
    for (int i = 0; i < 2; ++i) {  // "/opt/pith/bin/pith" → "/opt/pith"
        char * slash = std::strrchr(root, '/');
        if (slash == nullptr) { return false; }
        *slash = '\0';
    }
    return true;
}

}  // namespace

int main(int argc, char ** argv) {
    char root[PATH_MAX];
    if (!find_root(root)) { return fail("cannot find its own folder by", "/proc/self/exe"); }
    static char loader[PATH_MAX + sizeof kLoader];
    static char program[PATH_MAX + sizeof kProgram];
    std::snprintf(loader, sizeof loader, "%s/%s", root, kLoader);
    std::snprintf(program, sizeof program, "%s/%s", root, kProgram);
    auto ** arguments = static_cast<char **>(std::calloc(static_cast<size_t>(argc) + 5, sizeof(char *)));
    if (arguments == nullptr) { return fail("cannot start", program); }
    int n = 0;
    arguments[n++] = loader;
    arguments[n++] = const_cast<char *>("--argv0");
    arguments[n++] = argc > 0 ? argv[0] : program;
    arguments[n++] = program;
    for (int i = 1; i < argc; ++i) { arguments[n++] = argv[i]; }
    execv(loader, arguments);
    return fail("cannot start", loader);
}
