// http_server.h - the API behind HTTP: connections, limits, CORS. Stage: serve.
//
// A request must have arrived as a whole within a given time, however slowly its bytes come; a body and its head have a largest
// size, all bodies together, too, and none is kept of who brings no key; connections have a largest number, beyond which a few
// wait, and one more is told so and closed. A client that goes away ends what runs for it. Threads: one for each connection
// that is being served.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "pith/status.h"
#include "serve/api.h"

namespace pith::serve {

struct HttpOptions {
    std::string host = "127.0.0.1";
    int port = 8080;  // 0: any that is free
    int most_connections = 512;
    size_t most_body_bytes = size_t{32} << 20;
    size_t most_bodies_bytes = size_t{256} << 20;  // of all requests that are in hand
    int receive_timeout_s = 60;                    // for a whole request to arrive
    int write_timeout_s = 60;                      // for a client to take what is written
    int keep_alive_s = 5;                          // for the next request of a connection
    std::string cors_origin = "*";                 // whose pages may call; empty: none
    std::vector<std::string> allowed_hosts;        // names of the server beside those of this machine (request_target.h)
};

class HttpServer {
public:
    // api must live as long as this. Errors: kInvalidArgument, kIo: the address cannot be bound: names it.
    static Result<std::unique_ptr<HttpServer>> bind(Api & api, const HttpOptions & options);
    ~HttpServer();
    HttpServer(const HttpServer &) = delete;
    HttpServer & operator=(const HttpServer &) = delete;

    int port() const;
    std::string url() const;
    // Serves until stop() was called by another thread, and what had begun has been answered or cut; or the port is lost.
    void serve();
    // Waits until the replies that had begun are written, so many seconds at most: a client may read slowly, or not at all.
    void drain(double most_s);
    // Cuts what is still on its way.
    void stop();

private:
    struct Impl;
    explicit HttpServer(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace pith::serve
