// no_serve.cpp - `pith serve` where it was left out of the build: says so.
#include "app/shell/commands.h"
#include "common/base/errors.h"

namespace pith::app {

void add_serve_command(CLI::App & root, int & exit_code) {
    CLI::App * command = root.add_subcommand("serve", "Serve OpenAI's HTTP interface (left out of this build)");
    command->allow_extras();
    command->callback([&exit_code] {
        exit_code =
            fail({ErrorCode::kUnsupported,
                  "this pith was built without its server: configure it with -DPITH_SERVE=ON, which wants Boost's headers"});
    });
}

}  // namespace pith::app
