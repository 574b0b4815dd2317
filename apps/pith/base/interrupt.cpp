// interrupt.cpp - the SIGINT handler.
#include "app/base/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace pith::app {
namespace {

std::atomic<bool> interrupted{false};
std::atomic<bool> reading{false};
static_assert(std::atomic<bool>::is_always_lock_free, "the handlers may only touch lock-free memory");

void on_interrupt(int) {
    interrupted.store(true);
    if (reading.load()) { alarm(1); }
}

void on_alarm(int) {
    if (reading.load() && interrupted.load()) { alarm(1); }
}

}  // namespace

const std::atomic<bool> & catch_interrupt() {
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // the default comes back: a second Ctrl-C kills
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    return interrupted;
}

std::atomic<bool> & every_interrupt() {
    static const bool installed = [] {
        struct sigaction action = {};
        action.sa_handler = on_interrupt;
        sigemptyset(&action.sa_mask);
        return sigaction(SIGINT, &action, nullptr) == 0;
    }();
    static_cast<void>(installed);
    return interrupted;
}

WakeReads::WakeReads() {
    struct sigaction action = {};
    action.sa_handler = on_alarm;
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, nullptr);
    reading.store(true);
}

WakeReads::~WakeReads() {
    reading.store(false);
    alarm(0);
}

}  // namespace pith::app
