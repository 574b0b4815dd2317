// rpc_server.h - ggml-rpc-servers: asked who they are before ggml, which ends the process over what it does not like, connects.
// Stage: device.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pith/status.h"

typedef struct ggml_backend_device * ggml_backend_dev_t;
typedef struct ggml_backend_buffer * ggml_backend_buffer_t;

namespace pith {

struct RpcEndpoint {
    std::string host;
    int port = 0;

    // Errors: kInvalidArgument: not "host:port", a port outside [1, 65535].
    static Result<RpcEndpoint> parse(const std::string & text);
    std::string text() const { return host + ":" + std::to_string(port); }
};

// Whether a ggml-rpc-server answers there that speaks this ggml's protocol. Each step may take so long.
// Errors: kIo: there is none, none within the time, or something else answers; kUnsupported: another version of the protocol.
// Threads: any; a signal about a closed connection is the caller's (device_work.h).
Status ask_rpc_server(const RpcEndpoint & server, std::chrono::milliseconds limit);

// A server's devices, and the connection to it.
class RpcServer {
public:
    RpcServer(std::string at, std::vector<ggml_backend_dev_t> with, ggml_backend_buffer_t holding)
        : endpoint(std::move(at)), devices(std::move(with)), anchor_(holding) {}
    ~RpcServer();  // inside or outside of on_devices()
    RpcServer(const RpcServer &) = delete;
    RpcServer & operator=(const RpcServer &) = delete;

    const std::string endpoint;
    const std::vector<ggml_backend_dev_t> devices;

private:
    // A few bytes there: ggml closes a connection that no buffer needs, and does not look whether it could open it again.
    ggml_backend_buffer_t anchor_;
};

// Asks the server, and registers it with ggml; or the one that is open, if there is one.   REQUIRES: load_backends() succeeded;
// inside on_devices(). Errors: those of parse() and ask_rpc_server(); kUnsupported: this ggml has no RPC back end.
Result<std::shared_ptr<const RpcServer>> open_rpc_server(const std::string & endpoint);

}  // namespace pith
