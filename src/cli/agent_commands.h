#pragma once

namespace CLI {
class App;
}

namespace pons::cli {

struct Common;

// Commands about what agents know and borrow. Each registers itself below the given one.
void add_memory(CLI::App& app, Common& common, int& exit_code);
void add_files(CLI::App& app, Common& common, int& exit_code);
void add_mcp_pins(CLI::App& mcp, Common& common, int& exit_code);

}  // namespace pons::cli
