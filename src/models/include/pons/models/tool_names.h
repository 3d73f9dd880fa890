#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "pons/models/message.h"

namespace pons::models {

// Tools under names that a provider of another protocol accepts. A name that is legal there stays;
// any other, and each that stands in a namespace, becomes one that a person can still read,
// followed by a hash of it: the same in every turn and every conversation, as a provider's cache
// needs it.
class ToolNames {
 public:
  // Renames in `request`, which is about to be written for `target`: its tools, its tool choice and
  // the calls of its history.
  ToolNames(Request& request, Protocol target);

  // Gives a call in the answer the name and namespace that the client knows. A whole call of a
  // free-form tool that a provider knows as a function gets its plain text back; one whose input is
  // still to come stays a function's, and the client's writer takes the text out.
  void restore(Part& part) const;

 private:
  struct Known {
    std::string name;
    std::string space;
    bool free_form = false;
  };

  std::string legal_name(const std::string& name, const std::string& space, Protocol target);

  // By namespace and name, at the provider and at the client.
  std::unordered_map<std::string, Known> known_;
  std::unordered_map<std::string, std::string> new_;
  std::unordered_set<std::string> taken_;
};

}  // namespace pons::models
