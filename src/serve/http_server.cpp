// http_server.cpp - connections come, get a thread each, and end. Stage: serve.
#include "serve/http_server.h"

#include <unistd.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "core/items.h"
#include "core/stopwatch.h"
#include "serve/connection.h"
#include "serve/connection_threads.h"
#include "serve/listener.h"
#include "serve/memory_reserve.h"
#include "serve/timed_socket.h"

namespace pith::serve {
struct HttpServer::Impl {
    // Sockets of connections, each until just before it is closed.
    class OpenSockets {
    public:
        void add(const TimedSocket & socket) {
            const std::lock_guard lock(mutex_);
            sockets_.insert(&socket);
            if (is_cut_) { socket.cut(); }
        }
        void remove(const TimedSocket & socket) {
            const std::lock_guard lock(mutex_);
            sockets_.erase(&socket);
        }
        // Whoever reads or writes there is done at once, and so is whoever comes after.
        void cut() {
            const std::lock_guard lock(mutex_);
            is_cut_ = true;
            for (const TimedSocket * socket : sockets_) { socket->cut(); }
        }

    private:
        std::mutex mutex_;
        std::set<const TimedSocket *> sockets_;
        bool is_cut_ = false;
    };

    Impl(Api & api, HttpOptions options)
        : all(api, std::move(options)), threads(static_cast<size_t>(all.options.most_connections)) {}

    Connections all;
    Listener listener;
    OpenSockets open;
    ConnectionThreads threads;

    // The connection has a thread, or is told that there is none, and closed.
    void take(int file) {
        std::shared_ptr<const TimedSocket> socket;
        try {
            socket = std::make_shared<const TimedSocket>(file);
        } catch (...) {
            close(file);
            throw;
        }
        if (!socket->prepare()) { return; }
        const bool has_thread = threads.enqueue([this, socket] {
            try {
                open.add(*socket);
                Connection(all, *socket).serve();
            } catch (...) { socket->cut(); }  // no memory to begin with
            open.remove(*socket);
        });
        if (!has_thread) {
            socket->write(kTooManyReply, {}, std::chrono::seconds(0));
            socket->end(std::chrono::milliseconds(0));
        }
    }
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::bind(Api & api, const HttpOptions & options) {
    MemoryReserve::keep();
    auto impl = std::make_unique<Impl>(api, options);
    if (!impl->listener.bind(options.host, options.port)) {
        return {ErrorCode::kIo, "cannot listen at " + options.host + ":" + std::to_string(options.port) +
                                    ": the address is taken, or not this machine's; choose another " + item::kHost + " or " +
                                    item::kPort};
    }
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int HttpServer::port() const {
    return impl_->listener.port();
}

std::string HttpServer::url() const {
    const std::string & host = impl_->all.options.host;
    const bool is_v6 = host.find(':') != std::string::npos;
    return "http://" + (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port());
}

void HttpServer::serve() {
    while (const auto file = impl_->listener.accept()) {
        try {
            impl_->take(*file);
        } catch (...) {}  // no memory: that one is closed
    }
    impl_->threads.shutdown();
}

void HttpServer::drain(double most_s) {
    impl_->all.is_ending = true;
    const Stopwatch watch;
    while (impl_->all.n_in_hand > 0 && watch.seconds() < most_s) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }
}

void HttpServer::stop() {
    impl_->listener.end();
    impl_->open.cut();
}

}  // namespace pith::serve
