#include "pons/scan/needle_set.h"

#include <utility>

#include "index.h"

namespace pons::scan {

std::string_view to_string(Encoding encoding) {
  switch (encoding) {
    case Encoding::kPlain:
      return "plain";
    case Encoding::kBase64:
      return "base64";
    case Encoding::kBase64Url:
      return "base64url";
    case Encoding::kHex:
      return "hex";
    case Encoding::kBase32:
      return "base32";
    case Encoding::kUtf16:
      return "utf-16";
  }
  return "";
}

std::string_view to_string(View view) {
  switch (view) {
    case View::kRaw:
      return "raw";
    case View::kPercent:
      return "percent";
    case View::kJson:
      return "json";
    case View::kHtml:
      return "html";
    case View::kQuotedPrintable:
      return "quoted-printable";
    case View::kLines:
      return "lines";
    case View::kSeparators:
      return "separators";
  }
  return "";
}

std::string describe(const Finding& finding) {
  std::string text(to_string(finding.encoding));
  for (const View view : {finding.inner, finding.outer}) {
    if (view != View::kRaw) text.append(" in ").append(to_string(view));
  }
  return text;
}

NeedleSet::NeedleSet(std::unique_ptr<Index> index) : index_(std::move(index)) {}
NeedleSet::~NeedleSet() = default;

Result<std::shared_ptr<const NeedleSet>> NeedleSet::create(std::span<const Needle> needles) {
  auto index = TRY(Index::create(needles));
  return std::shared_ptr<const NeedleSet>(new NeedleSet(std::move(index)));
}

std::size_t NeedleSet::memory_bytes() const {
  return sizeof(*this) + index_->memory_bytes();
}

}  // namespace pons::scan
