#pragma once

#include <string>
#include <string_view>

#include "pons/base/json.h"
#include "pons/base/result.h"
#include "pons/sandbox/provider.h"

// The provider interface over HTTP: what the warden serves and remote.h asks.
//
//   GET    /templates                                  {"templates":[TemplateInfo]}
//   PUT    /templates/NAME            TemplateInfo     204
//   DELETE /templates/NAME                             {"unreferenced_layers":[hex]}
//   POST   /sandboxes                 CreateRequest    201 SandboxInfo
//   GET    /sandboxes                                  {"sandboxes":[SandboxInfo]}
//   GET    /sandboxes/ID                               SandboxInfo
//   DELETE /sandboxes/ID                               204
//   GET    /sandboxes/ID/metrics                       Metrics
//   PUT    /sandboxes/ID/limits       Limits           SandboxInfo
//   PUT    /sandboxes/ID/lifetime     {"from_now_ms":N,"pause_at_end":false}   SandboxInfo
//   PUT    /sandboxes/ID/labels       {NAME:VALUE}     SandboxInfo; one label
//   POST   /run                       RunRequest       lines: {"sandbox":SandboxInfo}, {"job":ID},
//                                                      then JobEvent …; create, execute and, unless
//                                                      kept, destroy in one
//   POST   /sandboxes/ID/pause | resume                SandboxInfo
//   POST   /sandboxes/ID/jobs         JobSpec          lines: {"job":ID}, then JobEvent …
//   GET    /sandboxes/ID/jobs                          {"jobs":[JobInfo]}
//   GET    /sandboxes/ID/jobs/JOB?output=N&error=N     lines, as above
//   POST   /sandboxes/ID/jobs/JOB/input  raw bytes     204
//   DELETE /sandboxes/ID/jobs/JOB/input                204
//   POST   /sandboxes/ID/jobs/JOB/signal {"signal":15} 204
//   POST   /sandboxes/ID/jobs/JOB/resize {"rows":24,"columns":80}   204
//   GET    /sandboxes/ID/file?path=&user=&offset=&size=             raw bytes
//   PUT    /sandboxes/ID/file?path=&user=&mode=&parents=&append=&exclusive=   raw bytes  FileInfo
//                                                      also &in_place=, &owner=, and
//                                                      &attribute=NAME=VALUE for each
//   DELETE /sandboxes/ID/file?path=&user=              204
//   GET    /sandboxes/ID/stat?path=&user=              FileInfo
//   GET    /sandboxes/ID/files?path=&user=&depth=      {"files":[FileInfo]}
//   POST   /sandboxes/ID/directory?path=&user=&owner=  FileInfo
//   POST   /sandboxes/ID/rename?from=&to=&user=        FileInfo
//   GET    /sandboxes/ID/changes?path=&user=&recursive=  lines: FileChange
//   POST   /sandboxes/ID/checkpoints  {"name":""}      201 {"name":NAME}
//   POST   /sandboxes/ID/checkpoints/NAME/rollback | commit   204
//   POST   /sandboxes/ID/fork         CreateRequest    201 SandboxInfo
//   POST   /sandboxes/ID/snapshot     {"template":NAME}  201 TemplateInfo
//   GET    /sandboxes/ID/dial/PORT    (WebSocket)      binary messages are the connection's bytes,
//                                                      an empty one the end of that direction
//
// "lines" are application/x-ndjson. Query values are percent-encoded. Bytes that are no UTF-8
// travel as {"base64":…} in place of a string. An error is {"error":{"type","message"}} with the
// status of its code; type is to_string(ErrorCode), so that a remote provider returns the same
// error.

namespace pons::sandbox {

struct RunRequest {
  CreateRequest sandbox;
  JobSpec job;
  bool keep = false;  // the sandbox, when the job has ended
};

Json to_json(const Limits& value);
Json to_json(const Weakening& value);
Json to_json(const TemplateInfo& value);
Json to_json(const CreateRequest& value);
Json to_json(const SandboxInfo& value);
Json to_json(const Metrics& value);
Json to_json(const TerminalSize& value);
Json to_json(const JobSpec& value);
Json to_json(const RunRequest& value);
Json to_json(const JobInfo& value);
Json to_json(const Output& value);
Json to_json(const JobStarted& value);
Json to_json(const JobEvent& value);  // {"started":{…}}, {"output":{…}} or {"ended":{…}}
Json to_json(const FileInfo& value);
Json to_json(const FileChange& value);

// Strict: an unknown key, a wrong type or a value out of range is kInvalid with the key's name.
// What is left out has its default.
template <class T>
Result<T> from_json(const Json& json);

template <>
Result<Limits> from_json(const Json& json);
template <>
Result<Weakening> from_json(const Json& json);
template <>
Result<TemplateInfo> from_json(const Json& json);
template <>
Result<CreateRequest> from_json(const Json& json);
template <>
Result<SandboxInfo> from_json(const Json& json);
template <>
Result<Metrics> from_json(const Json& json);
template <>
Result<TerminalSize> from_json(const Json& json);
template <>
Result<JobSpec> from_json(const Json& json);
template <>
Result<RunRequest> from_json(const Json& json);
template <>
Result<JobInfo> from_json(const Json& json);
template <>
Result<Output> from_json(const Json& json);
template <>
Result<JobStarted> from_json(const Json& json);
template <>
Result<JobEvent> from_json(const Json& json);
template <>
Result<FileInfo> from_json(const Json& json);
template <>
Result<FileChange> from_json(const Json& json);

// As they stand in JSON.
std::string_view name_of(State value);
std::string_view name_of(Outcome value);
std::string_view name_of(FileKind value);

}  // namespace pons::sandbox
