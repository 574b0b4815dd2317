// listener.h - the socket at which connections come. Stage: serve.   Threads: one accepts; any may end it.
#pragma once

#include <optional>
#include <string>

namespace pith::serve {

class Listener {
public:
    Listener() = default;
    ~Listener();
    Listener(const Listener &) = delete;
    Listener & operator=(const Listener &) = delete;

    // port 0: any that is free. false: the address is taken, or not this machine's.
    bool bind(const std::string & host, int port);
    int port() const { return port_; }
    // Waits for the next connection: its socket. Nothing: it was ended, or the port is lost.
    std::optional<int> accept();
    void end() const;

private:
    bool bind_to(const void * address);  // an addrinfo

    int socket_ = -1;
    int wake_[2] = {-1, -1};  // a pipe: what is written to the second ends accept()
    int port_ = 0;
};

}  // namespace pith::serve
