#include "pons/spawner/protocol.h"

#include <cstring>

namespace pons::spawner {

std::optional<Request> parse_request(std::string_view bytes) {
  Request request;
  if (bytes.size() != sizeof request) return std::nullopt;
  std::memcpy(&request, bytes.data(), sizeof request);
  if (request.magic != kMagic || request.version != kVersion) return std::nullopt;
  if (request.kind < RequestKind::kIdentify || request.kind > RequestKind::kFindView)
    return std::nullopt;
  if (request.kind > RequestKind::kAttempt && request.kind != RequestKind::kList &&
      request.sandbox == 0)
    return std::nullopt;
  if (request.create.template_layer_count > kTemplateLayersMax ||
      request.view.layer_count > kOwnLayersMax)
    return std::nullopt;
  return request;
}

std::optional<Reply> parse_reply(std::string_view bytes) {
  Reply reply;
  if (bytes.size() != sizeof reply) return std::nullopt;
  std::memcpy(&reply, bytes.data(), sizeof reply);
  if (reply.magic != kMagic || reply.status > Status::kNoSuchSandbox || reply.step >= Step::kCount)
    return std::nullopt;
  if (reply.os_error < 0 || reply.os_error > kOsErrorMax) return std::nullopt;
  return reply;
}

const char* name_of(Step step) {
  switch (step) {
    case Step::kNone:
      return "nothing";
    case Step::kUserNamespace:
      return "make user namespace";
    case Step::kNetNamespace:
      return "make network namespace";
    case Step::kCgroup:
      return "make control group";
    case Step::kLimits:
      return "set limits";
    case Step::kIoLimits:
      return "limit io";
    case Step::kSocket:
      return "open the cell's socket";
    case Step::kStore:
      return "make writable layer";
    case Step::kTemplateLayer:
      return "open template layer";
    case Step::kOverlay:
      return "mount overlay";
    case Step::kClone:
      return "clone process";
    case Step::kJoinCgroup:
      return "join control group";
    case Step::kCgroupNamespace:
      return "make cgroup namespace";
    case Step::kProc:
      return "mount /proc";
    case Step::kSys:
      return "build /sys";
    case Step::kDev:
      return "build /dev";
    case Step::kHostTree:
      return "show the host's /usr";
    case Step::kStagedTrees:
      return "clone staged mounts";
    case Step::kMountNamespace:
      return "make mount namespace";
    case Step::kPivot:
      return "pivot root";
    case Step::kUts:
      return "make uts namespace";
    case Step::kEnterUser:
      return "enter user namespace";
    case Step::kIdentity:
      return "become the sandbox's root";
    case Step::kSeccomp:
      return "install system-call filter";
    case Step::kCapabilities:
      return "drop capabilities";
    case Step::kExecute:
      return "execute the cell";
    case Step::kFreeze:
      return "freeze";
    case Step::kSeal:
      return "seal the old view";
    case Step::kSwitch:
      return "switch to the new view";
    case Step::kMerge:
      return "merge layers";
    case Step::kCopy:
      return "copy layers";
    case Step::kDelete:
      return "delete";
    case Step::kConnect:
      return "connect to the cell";
    case Step::kDial:
      return "dial into the sandbox";
    case Step::kWayOut:
      return "open the way out";
    case Step::kKeep:
      return "deposit descriptors";
    case Step::kCount:
      break;
  }
  return "unknown step";
}

}  // namespace pons::spawner
