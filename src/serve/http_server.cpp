// http_server.cpp - cpp-httplib, with a clock on every request. Stage: serve.
#include "serve/http_server.h"

#include <httplib.h>
#include <netinet/tcp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "core/guarded.h"
#include "core/items.h"
#include "core/stopwatch.h"
#include "serve/body_room.h"
#include "serve/connection_threads.h"
#include "serve/shapes/api_error.h"

namespace pith::serve {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(250);  // how often deadlines are looked at

class Connections final : public httplib::TaskQueue {
public:
    explicit Connections(size_t most) : threads_(most) {}
    bool enqueue(std::function<void()> serve) override { return threads_.enqueue(std::move(serve)); }
    void shutdown() override { threads_.shutdown(); }

private:
    ConnectionThreads threads_;
};

// Sockets that are being served, each from its first byte until just before it is closed.
class OpenSockets {
public:
    void add(int socket) {
        const std::lock_guard lock(mutex_);
        sockets_.insert(socket);
        if (is_cut_) { shutdown(socket, SHUT_RDWR); }
    }
    void remove(int socket) {
        const std::lock_guard lock(mutex_);
        sockets_.erase(socket);
    }
    // Whoever reads or writes there is done at once, and so is whoever comes after.
    void cut() {
        const std::lock_guard lock(mutex_);
        is_cut_ = true;
        for (const int socket : sockets_) { shutdown(socket, SHUT_RDWR); }
    }

private:
    std::mutex mutex_;
    std::set<int> sockets_;
    bool is_cut_ = false;
};

// Ends the reading of sockets whose request has not arrived in time: a byte a second would keep a connection, and its thread,
// for ever.
class Deadlines {
public:
    explicit Deadlines(int timeout_s) : timeout_(timeout_s), thread_([this] { look(); }) {}
    ~Deadlines() {
        {
            const std::lock_guard lock(mutex_);
            ending_ = true;
        }
        wake_.notify_one();
        thread_.join();
    }
    void begin(int socket) {
        const std::lock_guard lock(mutex_);
        deadlines_[socket] = Clock::now() + timeout_;
    }
    void end(int socket) {
        const std::lock_guard lock(mutex_);
        deadlines_.erase(socket);
    }
    bool has_passed(int socket) {
        const std::lock_guard lock(mutex_);
        const auto found = deadlines_.find(socket);
        return found != deadlines_.end() && Clock::now() > found->second;
    }

private:
    void look() {
        std::unique_lock lock(mutex_);
        while (!wake_.wait_for(lock, kLook, [this] { return ending_; })) {
            const auto now = Clock::now();
            for (const auto & [socket, deadline] : deadlines_) {
                if (now > deadline) { shutdown(socket, SHUT_RD); }
            }
        }
    }

    std::chrono::seconds timeout_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::map<int, Clock::time_point> deadlines_;
    bool ending_ = false;
    std::thread thread_;
};

class TimedServer : public httplib::Server {
public:
    explicit TimedServer(int receive_timeout_s) : deadlines_(receive_timeout_s) {}
    // This thread's request has arrived.
    void has_arrived() {
        deadlines_.end(socket_of_thread_);
        ++n_in_hand_;
        in_hand_of_thread_ = true;
    }
    // This thread's request is answered by an error: where the next one begins on its connection may not be known.
    static void has_failed() { failed_on_thread_ = true; }
    // Its time passed before the whole of it was here.
    bool is_late() { return deadlines_.has_passed(socket_of_thread_); }
    int n_in_hand() const { return n_in_hand_.load(); }  // that have arrived, and whose replies are not written
    void cut() { open_.cut(); }
    // Server::stop() does nothing before its loop has begun: the loop ends at once then, when it begins.
    void end() {
        stop();
        if (const socket_t socket = svr_sock_.exchange(INVALID_SOCKET); socket != INVALID_SOCKET) {
            httplib::detail::shutdown_socket(socket);
            httplib::detail::close_socket(socket);
        }
    }

private:
    bool process_and_close_socket(socket_t sock) override {
        std::string remote_address;
        std::string local_address;
        int remote_port = 0;
        int local_port = 0;
        httplib::detail::get_remote_ip_and_port(sock, remote_address, remote_port);
        httplib::detail::get_local_ip_and_port(sock, local_address, local_port);
        socket_of_thread_ = sock;
        open_.add(sock);
        bool good = false;
        try {
            good = httplib::detail::process_server_socket(
                svr_sock_, sock, keep_alive_max_count_, keep_alive_timeout_sec_, read_timeout_sec_, read_timeout_usec_,
                write_timeout_sec_, write_timeout_usec_, [&](httplib::Stream & stream, bool close, bool & closed) {
                    deadlines_.begin(sock);
                    failed_on_thread_ = false;
                    const bool served =
                        process_request(stream, remote_address, remote_port, local_address, local_port, close, closed, nullptr);
                    deadlines_.end(sock);
                    leave();
                    closed = closed || failed_on_thread_;
                    return served;
                });
        } catch (...) { leave(); }  // no memory: this connection ends, and no other
        deadlines_.end(sock);
        open_.remove(sock);
        httplib::detail::shutdown_socket(sock);
        httplib::detail::close_socket(sock);
        return good;
    }
    void leave() {
        if (std::exchange(in_hand_of_thread_, false)) { --n_in_hand_; }
    }

    Deadlines deadlines_;
    OpenSockets open_;
    std::atomic<int> n_in_hand_{0};
    static thread_local int socket_of_thread_;
    static thread_local bool in_hand_of_thread_;
    static thread_local bool failed_on_thread_;
};

thread_local int TimedServer::socket_of_thread_ = -1;
thread_local bool TimedServer::in_hand_of_thread_ = false;
thread_local bool TimedServer::failed_on_thread_ = false;

void set_socket(socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // not SO_REUSEPORT: two servers would share a port
#ifdef TCP_DEFER_ACCEPT
    const int seconds = 5;  // a connection that says nothing takes no thread
    setsockopt(socket, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds);
#endif
}

void write_reply(ApiReply reply, httplib::Response & response) {
    response.status = reply.status;
    for (const auto & [name, value] : reply.headers) { response.set_header(name, value); }
    if (!reply.stream) {
        response.set_content(std::move(reply.body), reply.content_type);
        return;
    }
    response.set_chunked_content_provider(
        reply.content_type, [stream = std::move(reply.stream)](size_t, httplib::DataSink & sink) {
            std::string piece;
            const auto more = guarded([&]() -> Result<bool> { return stream->next(piece); });
            if (!more.ok()) { return false; }  // no memory: the stream is cut, which its client sees
            if (piece.empty() ? !sink.is_writable() : !sink.write(piece.data(), piece.size())) { return false; }
            if (!*more) { sink.done(); }
            return true;
        });
}

// httplib would read it into memory before any of the handlers here, which look at keys and at the room that there is, is
// asked.
bool has_stray_body(const httplib::Request & request) {
    const bool may_have_one =
        request.method == "POST" || request.method == "PUT" || request.method == "PATCH" || request.method == "DELETE";
    const bool has_one = request.get_header_value_u64("Content-Length") > 0 || request.has_header("Transfer-Encoding");
    return has_one && !may_have_one;
}

constexpr int64_t kRetryBodyS = 1;  // other bodies come and go

// false: it did not come as a whole, is too long, or finds no room beside others: the status says which. httplib itself would
// read a body as a form where its type says so, as curl's does, and take 8 KiB of it.
bool read_body(const httplib::ContentReader & content, BodyRoom::Share & room, std::string & body,
               httplib::Response & response) {
    bool fits = true;
    const bool whole = content([&](const char * bytes, size_t n) {
        fits = room.take(n);
        if (fits) { body.append(bytes, n); }
        return fits;
    });
    if (!fits) { response.status = 429; }
    if (!whole && response.status < 400) { response.status = 400; }
    return whole;
}

ApiError error_of_http(int status, size_t most_body_bytes) {
    switch (status) {
        case 404:
            return not_found();
        case 408:
            return {408, "invalid_request_error", "the request did not arrive in time"};
        case 413:
            return too_large(most_body_bytes);
        case 414:
            return {414, "invalid_request_error", "the address is too long"};
        case 429:
            return no_room("the bodies of other requests take all the room there is: try again later", kRetryBodyS);
        case 500:
            return {500, "server_error", "the request failed inside the server"};
        default:
            return {status, status < 500 ? "invalid_request_error" : "server_error", "the request is no HTTP that can be read"};
    }
}

}  // namespace

struct HttpServer::Impl {
    Impl(Api & with, HttpOptions as)
        : api(with), options(std::move(as)), server(options.receive_timeout_s), room(options.most_bodies_bytes) {}

    Api & api;
    HttpOptions options;
    TimedServer server;
    BodyRoom room;
    int port = 0;

    void set_limits() {
        server.new_task_queue = [this] {
            return new Connections(static_cast<size_t>(options.most_connections));  // the server's own from here on
        };
        server.set_payload_max_length(options.most_body_bytes);
        server.set_read_timeout(options.receive_timeout_s);
        server.set_write_timeout(options.write_timeout_s);
        server.set_keep_alive_timeout(options.keep_alive_s);
        server.set_keep_alive_max_count(10'000);
        server.set_tcp_nodelay(true);
        server.set_socket_options(set_socket);
    }

    // Which pages may read replies, and what browsers ask beforehand.
    void set_cors(const httplib::Request & request, httplib::Response & response) const {
        const std::string origin = request.get_header_value("Origin");
        if (origin.empty() || options.cors_origin.empty()) { return; }
        response.set_header("Access-Control-Allow-Origin", options.cors_origin);
        response.set_header("Access-Control-Expose-Headers", "Retry-After");
        if (options.cors_origin != "*") { response.set_header("Vary", "Origin"); }
        if (request.method != "OPTIONS") { return; }
        response.set_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
        response.set_header("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key, *");
        response.set_header("Access-Control-Max-Age", "600");
    }

    void set_routes() {
        server.set_pre_routing_handler([this](const httplib::Request & request, httplib::Response & response) {
            set_cors(request, response);
            if (has_stray_body(request)) {
                write_reply(reply_of(invalid_request("a " + request.method + " request has no body"), request.path), response);
                return httplib::Server::HandlerResponse::Handled;
            }
            if (request.method != "OPTIONS") { return httplib::Server::HandlerResponse::Unhandled; }
            response.status = 204;
            return httplib::Server::HandlerResponse::Handled;
        });
        const auto serve = [this](const httplib::Request & request, httplib::Response & response,
                                  const httplib::ContentReader * content) {
            BodyRoom::Share share(room);  // until all that came of the body is gone
            ApiRequest asked;
            asked.method = request.method == "HEAD" ? "GET" : request.method;
            asked.path = request.path;
            asked.authorization = request.get_header_value("Authorization");
            asked.api_key = request.get_header_value("X-Api-Key");
            asked.gone = request.is_connection_closed;
            if (auto refused = api.refuse(asked)) { return write_reply(std::move(*refused), response); }
            if (content != nullptr && request.is_multipart_form_data()) {
                return write_reply(
                    reply_of(invalid_request("the body is a form of several parts: send a JSON object"), asked.path), response);
            }
            if (content != nullptr && !read_body(*content, share, asked.body, response)) { return; }
            server.has_arrived();
            write_reply(api.handle(asked), response);
        };
        const auto serve_body = [serve](const httplib::Request & request, httplib::Response & response,
                                        const httplib::ContentReader & content) { serve(request, response, &content); };
        const std::string any = R"(/.*)";
        server.Get(any, [serve](const httplib::Request & request, httplib::Response & response) {
            serve(request, response, nullptr);
        });
        server.Post(any, serve_body);
        server.Put(any, serve_body);
        server.Patch(any, serve_body);
        server.Delete(any, serve_body);
        server.set_error_handler([this](const httplib::Request & request, httplib::Response & response) {
            TimedServer::has_failed();
            if (response.body.empty()) {
                if (response.status == 400 && server.is_late()) { response.status = 408; }
                write_reply(reply_of(error_of_http(response.status, options.most_body_bytes), request.path), response);
            }
            return httplib::Server::HandlerResponse::Handled;
        });
    }
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::bind(Api & api, const HttpOptions & options) {
    auto impl = std::make_unique<Impl>(api, options);
    impl->set_limits();
    impl->set_routes();
    if (options.port == 0) {
        impl->port = impl->server.bind_to_any_port(options.host);
    } else if (impl->server.bind_to_port(options.host, options.port)) {
        impl->port = options.port;
    }
    if (impl->port <= 0) {
        return {ErrorCode::kIo, "cannot listen at " + options.host + ":" + std::to_string(options.port) +
                                    ": the address is taken, or not this machine's; choose another " + item::kHost + " or " +
                                    item::kPort};
    }
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int HttpServer::port() const {
    return impl_->port;
}

std::string HttpServer::url() const {
    const std::string & host = impl_->options.host;
    const bool is_v6 = host.find(':') != std::string::npos;
    return "http://" + (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(impl_->port);
}

void HttpServer::serve() {
    impl_->server.listen_after_bind();
}

void HttpServer::drain(double most_s) {
    const Stopwatch watch;
    while (impl_->server.n_in_hand() > 0 && watch.seconds() < most_s) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

void HttpServer::stop() {
    impl_->server.end();
    impl_->server.cut();
}

}  // namespace pith::serve
