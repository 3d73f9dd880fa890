#pragma once

namespace CLI {
class App;
}

namespace pons::cli {

struct Common;

// `pons egress requests`: what sandboxes ask to be allowed.
void add_egress_requests(CLI::App& group, Common& common, int& exit_code);

}  // namespace pons::cli
