#include "template_work.h"

#include <set>

namespace pons::cli {

Result<std::vector<sandbox::TemplateInfo>> list_templates(const std::string& state_dir) {
  return ask_warden<std::vector<sandbox::TemplateInfo>>(
      state_dir, [](sandbox::Provider& provider) { return provider.list_templates(); });
}

Result<std::optional<templates::Collected>> collect_layers(
    const std::string& state_dir, const std::vector<std::string>& digests) {
  const auto store = TRY(templates::LayerStore::open(state_dir));
  std::set<std::string> needed;
  for (const templates::LayerInfo& layer : TRY(store.list())) needed.insert(layer.digest);
  for (const std::string& digest : digests) needed.erase(digest);
  auto collected = store.collect(needed);
  if (!collected && collected.error().code == ErrorCode::kConflict) return std::nullopt;
  if (!collected) return collected.error();
  return std::move(*collected);
}

}  // namespace pons::cli
