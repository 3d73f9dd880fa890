#include "sha256.h"

#include <openssl/evp.h>

#include "pons/base/check.h"
#include "pons/base/text.h"

namespace pons::templates {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  CHECK(context_ != nullptr && EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(context_);
}

void Sha256::add(std::string_view bytes) {
  CHECK(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::finish_hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  CHECK(EVP_DigestFinal_ex(context_, digest, &size) == 1);
  return to_hex({reinterpret_cast<const char*>(digest), size});
}

}  // namespace pons::templates
