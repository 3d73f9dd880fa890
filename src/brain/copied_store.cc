#include "pons/brain/copied_store.h"

#include "pons/memory/words.h"

namespace pons::brain {

Task<Result<void>> finish_copied_store(store::Store& store) {
  return memory::make_words(store);
}

}  // namespace pons::brain
