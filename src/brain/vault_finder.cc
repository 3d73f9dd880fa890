#include "vault_finder.h"

#include <fmt/format.h>

#include "pons/http/query.h"

namespace pons::brain {

namespace {

constexpr std::size_t kAnswerBytesMax = 4'096;

Task<Result<void>> ask(http::Client& egress, std::string project, std::string vault) {
  const Error none = make_error(ErrorCode::kNotFound, "find vault", "there is no such vault");
  CO_TRY(auto answer, co_await egress.send({.target = fmt::format("/project-vaults/{}/{}",
                                                                  http::percent_encode(project),
                                                                  http::percent_encode(vault))}));
  (void)co_await answer.read_whole_body(kAnswerBytesMax);
  if (answer.status() == 200) co_return {};
  if (answer.status() == 404) co_return none;
  if (answer.status() == 409)
    co_return make_error(ErrorCode::kConflict, "find vault", "the vault is archived");
  co_return make_error(ErrorCode::kUnavailable, "find vault",
                       "egress does not say whether the vault is there; try again");
}

}  // namespace

managed::VaultFinder vault_finder(http::Client& egress) {
  return [&egress](std::string project, std::string vault) {
    return ask(egress, std::move(project), std::move(vault));
  };
}

}  // namespace pons::brain
