#include "vault_finder.h"

#include <fmt/format.h>

#include "pons/http/query.h"

namespace pons::brain {

namespace {

constexpr std::size_t kAnswerBytesMax = 4'096;

Task<Result<void>> ask(http::Client& egress, std::string project, std::string vault,
                       OtherVaults others) {
  const Error unknown = make_error(ErrorCode::kUnavailable, "find vault",
                                   "egress does not say whether the vault is there; try again");
  auto answer = co_await egress.send(
      {.target = fmt::format("/project-vaults/{}/{}", http::percent_encode(project),
                             http::percent_encode(vault))});
  if (!answer) co_return unknown;
  (void)co_await answer->read_whole_body(kAnswerBytesMax);
  switch (answer->status()) {
    case 200:
      co_return {};
    case 404:
      // A schedule waits for whoever has it; a balancer tries the next machine.
      if (others == OtherVaults::kElsewhere)
        co_return make_error(ErrorCode::kUnavailable, "find vault",
                             "this machine has no such vault; one that shares its database may");
      co_return make_error(ErrorCode::kNotFound, "find vault", "there is no such vault");
    case 409:
      co_return make_error(ErrorCode::kConflict, "find vault", "the vault is archived");
    default:
      co_return unknown;
  }
}

}  // namespace

managed::VaultFinder vault_finder(http::Client& egress, OtherVaults others) {
  return [&egress, others](std::string project, std::string vault) {
    return ask(egress, std::move(project), std::move(vault), others);
  };
}

}  // namespace pons::brain
