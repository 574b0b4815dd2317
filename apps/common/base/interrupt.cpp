// interrupt.cpp - the handler of SIGINT and SIGTERM.
#include "common/base/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace pith::app {
namespace {

std::atomic<bool> interrupted{false};
std::atomic<bool> reading{false};
static_assert(std::atomic<bool>::is_always_lock_free, "the handlers may only touch lock-free memory");

void on_interrupt(int) {
    interrupted.store(true);
    if (reading.load()) { alarm(1); }
}

// How a SIGINT that comes during a read or a write goes on: SA_RESTART or 0.
bool handle_interrupts(int flags, int signal = SIGINT) {
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    action.sa_flags = flags;
    sigemptyset(&action.sa_mask);
    return sigaction(signal, &action, nullptr) == 0;
}

void on_alarm(int) {
    if (reading.load() && interrupted.load()) { alarm(1); }
}

}  // namespace

const std::atomic<bool> & catch_interrupt() {
    handle_interrupts(static_cast<int>(SA_RESETHAND | SA_RESTART));  // the default comes back: a second Ctrl-C kills
    return interrupted;
}

const std::atomic<bool> & catch_end() {
    handle_interrupts(static_cast<int>(SA_RESETHAND | SA_RESTART), SIGTERM);
    return catch_interrupt();
}

std::atomic<bool> & every_interrupt() {
    static const bool installed = handle_interrupts(SA_RESTART);  // an answer's text is written whole
    static_cast<void>(installed);
    return interrupted;
}

WakeReads::WakeReads() {
    handle_interrupts(0);
    struct sigaction action = {};
    action.sa_handler = on_alarm;
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, nullptr);
    reading.store(true);
}

WakeReads::~WakeReads() {
    reading.store(false);
    alarm(0);
    handle_interrupts(SA_RESTART);
    if (interrupted.load()) { std::clearerr(stdout); }  // the prompt may have been what was interrupted
}

}  // namespace pith::app
