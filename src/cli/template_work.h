#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "pons/http/client.h"
#include "pons/linux/loop.h"
#include "pons/linux/run_task.h"
#include "pons/sandbox/remote.h"
#include "pons/supervisor/supervisor.h"
#include "pons/templates/layer_store.h"

// What commands share that make and remove templates: the warden keeps their list, the layers lie
// in the state directory.

namespace pons::cli {

// kUnavailable, with advice, when Pons is not running.
template <class T>
Result<T> ask_warden(const std::string& state_dir,
                     const std::function<Task<Result<T>>(sandbox::Provider&)>& work) {
  auto loop = TRY(linux::Loop::create());
  sandbox::RemoteProvider provider(
      *loop, http::unix_connector(*loop, supervisor::control_socket_path(state_dir, "warden")));
  const auto answer = linux::run_to_end(*loop, work(provider));
  if (!answer && (answer.error().os_error == ENOENT || answer.error().os_error == ECONNREFUSED))
    return make_error(ErrorCode::kUnavailable, "ask warden",
                      fmt::format("Pons is not running on {}; start it with `pons up`, or name "
                                  "its --state-dir",
                                  state_dir));
  return answer;
}

Result<std::vector<sandbox::TemplateInfo>> list_templates(const std::string& state_dir);

// Deletes these layers, and what killed builds left. Nothing while a template is being made: then
// they wait for `pons template gc`.
Result<std::optional<templates::Collected>> collect_layers(const std::string& state_dir,
                                                           const std::vector<std::string>& digests);

}  // namespace pons::cli
