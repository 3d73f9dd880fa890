#include "index.h"

#include <cstring>
#include <string>
#include <utility>

#include "characters.h"
#include "pons/base/check.h"
#include "wiped.h"

namespace pons::scan {

namespace {

constexpr std::size_t kBeginningBytes = 4;

// Of the first bytes without case, so that one table serves both kinds of literals.
std::size_t hash_beginning(std::string_view text) {
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, text.data(), kBeginningBytes);
  return ((bytes | 0x20202020U) * 0x9E3779B1U) >> 8;
}

// How `rest` compares with as many bytes of the literal.
int compare_beginning(std::string_view literal, std::string_view rest, bool caseless) {
  const std::size_t length = std::min(literal.size(), rest.size());
  for (std::size_t i = 0; i < length; ++i) {
    const auto ours = static_cast<unsigned char>(literal[i]);
    const auto theirs = static_cast<unsigned char>(caseless ? to_lower(rest[i]) : rest[i]);
    if (ours != theirs) return ours < theirs ? -1 : 1;
  }
  return literal.size() < rest.size() ? -1 : 0;
}

Result<> check_needles(std::span<const Needle> needles) {
  constexpr const char* kStep = "make a set of needles";
  if (needles.empty()) return make_error(ErrorCode::kInvalid, kStep, "the set is empty");
  if (needles.size() > kNeedlesMax) {
    return make_error(ErrorCode::kLimit, kStep,
                      "more than " + std::to_string(kNeedlesMax) + " needles");
  }
  for (const Needle& needle : needles) {
    const bool has_size =
        needle.text.size() >= kNeedleBytesMin && needle.text.size() <= kNeedleBytesMax;
    if (has_size && !needle.text.contains('\0')) continue;
    return make_error(ErrorCode::kInvalid, kStep,
                      "needle " + std::to_string(needle.id) + " must have " +
                          std::to_string(kNeedleBytesMin) + " to " +
                          std::to_string(kNeedleBytesMax) + " bytes, none of them zero");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<NeedleSet::Index>> NeedleSet::Index::create(
    std::span<const Needle> needles) {
  TRY_VOID(check_needles(needles));
  auto index = std::make_unique<Index>();
  index->add_forms(needles);
  TRY_VOID(index->compile_anchors());
  index->sort_beginnings();
  return index;
}

void NeedleSet::Index::add_forms(std::span<const Needle> needles) {
  std::size_t total = 0;
  for (const Needle& needle : needles) total += needle.text.size() * 24;
  std::string texts;
  texts.reserve(total);  // never grows, so no copy is left behind unwiped
  for (const Needle& needle : needles) {
    const auto position = static_cast<std::uint32_t>(ids_.size());
    ids_.push_back(needle.id);
    WipedBytes base64[3];
    for (const Form form : all_forms()) {
      WipedBytes encoded = encode(form, needle.text);
      if (form.encoding == Encoding::kBase64) base64[form.preceding] = encoded;
      // Most needles have the same base64 in both alphabets.
      if (form.encoding == Encoding::kBase64Url && base64[form.preceding] == encoded) continue;
      literals_.push_back({.offset = static_cast<std::uint32_t>(texts.size()),
                           .length = static_cast<std::uint32_t>(encoded.size()),
                           .needle = position,
                           .form = form});
      longest_ = std::max(longest_, encoded.size());
      texts += view_of(encoded);
    }
  }
  CHECK(texts.size() <= total);
  texts_ = Secret(std::move(texts));
}

Result<> NeedleSet::Index::compile_anchors() {
  const auto anchor_of = [this](const Literal& literal) {
    std::string_view text = text_of(literal);
    text.remove_prefix(text.size() - kAnchorBytes);
    if (text[0] == '\0') text.remove_prefix(1);  // every other byte of UTF-16
    return Database::Anchor{.text = text, .caseless = is_caseless(literal.form.encoding)};
  };
  const auto key_of = [&](const Literal& literal) {
    const Database::Anchor anchor = anchor_of(literal);
    return std::pair(anchor.caseless, anchor.text);
  };
  std::ranges::sort(literals_, {}, key_of);
  std::vector<Database::Anchor> anchors;
  plain_.resize(ids_.size());
  for (std::uint32_t i = 0; i < literals_.size(); ++i) {
    if (literals_[i].form.encoding == Encoding::kPlain) plain_[literals_[i].needle] = i;
    if (i > 0 && key_of(literals_[i]) == key_of(literals_[i - 1])) continue;
    groups_.push_back(i);
    anchors.push_back(anchor_of(literals_[i]));
  }
  groups_.push_back(static_cast<std::uint32_t>(literals_.size()));
  database_.emplace(TRY(Database::compile(anchors)));
  return {};
}

void NeedleSet::Index::sort_beginnings() {
  std::size_t words = 16;
  while (words * 8 < literals_.size()) words *= 2;
  beginnings_.resize(words);
  for (std::uint32_t i = 0; i < literals_.size(); ++i) {
    const std::string_view text = text_of(literals_[i]);
    const bool caseless = is_caseless(literals_[i].form.encoding);
    (caseless ? caseless_ : exact_).push_back(i);
    const std::size_t bit = hash_beginning(text) % (words * 64);
    beginnings_[bit / 64] |= std::uint64_t{1} << bit % 64;
    first_bytes_[static_cast<unsigned char>(text[0])] = true;
    if (caseless && text[0] >= 'a' && text[0] <= 'z') first_bytes_[text[0] - 'a' + 'A'] = true;
  }
  for (auto* sorted : {&exact_, &caseless_}) {
    std::ranges::sort(*sorted, {}, [this](std::uint32_t i) { return text_of(literals_[i]); });
  }
}

std::size_t NeedleSet::Index::find_open(std::string_view text, std::size_t from) const {
  const std::size_t reach = longest_ - 1;
  if (text.size() > reach) from = std::max(from, text.size() - reach);
  for (; from < text.size(); ++from) {
    if (first_bytes_[static_cast<unsigned char>(text[from])] && is_open(text.substr(from))) break;
  }
  return std::min(from, text.size());
}

bool NeedleSet::Index::is_open(std::string_view rest) const {
  if (rest.size() >= kBeginningBytes) {
    const std::size_t bit = hash_beginning(rest) % (beginnings_.size() * 64);
    if ((beginnings_[bit / 64] >> bit % 64 & 1) == 0) return false;
  }
  return begins_any(exact_, rest, false) || begins_any(caseless_, rest, true);
}

bool NeedleSet::Index::begins_any(std::span<const std::uint32_t> sorted, std::string_view rest,
                                  bool caseless) const {
  auto at = std::ranges::partition_point(sorted, [&](std::uint32_t i) {
    return compare_beginning(text_of(literals_[i]), rest, caseless) < 0;
  });
  // Literals equal to `rest` come before longer ones that it begins.
  for (; at != sorted.end(); ++at) {
    const std::string_view literal = text_of(literals_[*at]);
    if (compare_beginning(literal, rest, caseless) != 0) return false;
    if (literal.size() > rest.size()) return true;
  }
  return false;
}

std::size_t NeedleSet::Index::memory_bytes() const {
  const std::size_t words =
      ids_.size() + plain_.size() + groups_.size() + exact_.size() + caseless_.size();
  return sizeof(*this) + texts_.size() + database_->memory_bytes() + words * sizeof(std::uint32_t) +
         literals_.size() * sizeof(Literal) + beginnings_.size() * sizeof(std::uint64_t);
}

}  // namespace pons::scan
