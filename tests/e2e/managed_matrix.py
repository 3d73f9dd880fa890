"""Every route of the Managed Agents API, with what belongs to it: a call that is taken, and what makes another of it.

The routes are those of the users' page, which is compared with the routes that are served. A route without a row is found
out by test_managed_matrix, and a row without a route, too.
"""

import os
import re
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "docs", "use", "api.md")

TOOLSET = {"type": "agent_toolset_20260401", "default_config": {"enabled": True, "permission_policy": {"type": "always_ask"}},
           "configs": [{"name": "bash", "enabled": True, "permission_policy": {"type": "always_ask"}}]}
CUSTOM = {"type": "custom", "name": "get_weather", "description": "Says it.",
          "input_schema": {"type": "object", "properties": {}, "required": []}}
CLOUD = {"type": "cloud", "packages": {"type": "packages", "pip": []},
         "networking": {"type": "limited", "allowed_hosts": ["api.example.com"], "allow_mcp_servers": False,
                        "allow_package_managers": True}}
BUDGET = {"type": "limit", "max_list_cost": {"amount": "2500", "currency": "USD"}}
SCHEDULE = {"type": "cron", "expression": "0 3 1 1 *", "timezone": "Europe/Berlin", "missed_runs": "run_once", "late_seconds": 60}
HELLO = {"type": "user.message", "content": [{"type": "text", "text": "hello"}]}
OUTCOME = {"type": "user.define_outcome", "description": "a door", "rubric": {"type": "text", "content": "it is blue"},
           "max_iterations": 1}
# What a member may hold whatever it is named: further members are no mistake there.
FREE = ("metadata", "input_schema", "properties")


def routes():
    """(method, pattern) of all, as the page names them."""
    with open(PAGE, encoding="utf-8") as page:
        return re.findall(r"^\| ([A-Z]+) \| `(/v1/[^`]*)` \|", page.read(), re.MULTILINE)


@dataclass
class Row:
    # Ids by the names in the pattern, as names of things of the world.
    at: dict = field(default_factory=dict)
    # A body that is taken, with every member; none: the route reads none, or a form.
    body: object = None
    status: int = 200  # of the call that is made in the end
    # Things of the world that are archived, and what becomes of the call.
    archived: dict = field(default_factory=dict)
    archived_status: int = 400
    queries: tuple = ()  # each is refused
    is_list: bool = False
    is_stream: bool = False
    is_upload: bool = False
    # The body names what is the project's own: another one's key is refused.
    borrows: bool = False
    step: int = 1  # in the end calls are made in this order
    # Of members of the right type, what is refused: by their place, and with 409 what was overtaken.
    wrong: dict = field(default_factory=dict)
    stale: dict = field(default_factory=dict)


PAGES = ("limit=many", "limit=-1", "limit=0", "page=nonsense", "page=%00", "limit=99999999999999999999", "page=%ff")
TIMES = ("created_at%5Bgte%5D=yesterday", "created_at%5Blte%5D=2026-02-31T00:00:00Z")
CHANGE, REST, CHILD, PARENT = 2, 3, 4, 5

BAD_NAMES = ("", "x" * 257)
BAD_TOOLS = ("bash_tool", "agent_toolset_20991231")
BAD_POLICIES = ("never", "")
BAD_METADATA = {("metadata",): ({"": "x"}, {"x" * 65: "x"}, {"x": "y" * 513}, {"x": 7}, {"x": {}})}
BAD_AGENT = {("name",): BAD_NAMES, ("system",): ("x" * 100_001,), ("model", "id"): ("", "x" * 257),
             ("model", "effort", "type"): ("heroic",), ("tools", 0, "type"): BAD_TOOLS,
             ("tools", 0, "configs", 0, "name"): ("fly", ""), ("tools", 1, "name"): ("", "bash", "two words", "x" * 200),
             ("tools", 0, "default_config", "permission_policy", "type"): BAD_POLICIES,
             ("mcp_servers",): ([{"type": "url", "name": "seen", "url": "ftp://seen.example.net"}],
                                [{"type": "url", "name": "seen", "url": "https://seen.example.net/mcp"}]),
             ("skills",): ([{"type": "custom", "skill_id": "skill_none"}],), **BAD_METADATA}
BAD_HOSTS = ("", "two words", "https://api.example.com", "api.example.com/path", "a" * 300)
BAD_ENVIRONMENT = {("name",): BAD_NAMES, ("config", "networking", "type"): ("half", ""),
                   ("config", "networking", "allowed_hosts", 0): BAD_HOSTS,
                   ("config", "packages", "pip"): (["--index-url=x"], ["../a"], ["a;b"], [""], ["https://x/y.whl"]),
                   **BAD_METADATA}
BAD_BUDGET = {("budget", "type"): ("wish",), ("budget", "max_list_cost", "amount"): ("0", "-1", "1.5", "", "x", "9" * 13),
              ("budget", "max_list_cost", "currency"): ("EUR", "usd")}
BAD_PATHS = ("data/a.txt", "/", "/data/", "/data//a", "/data/../a", "/data/./a", "/proc/a", "/sys/a", "/dev/a",
             "/var/lib/pons/a", "")
BAD_RESOURCES = {("resources", 0, "type"): ("folder",), ("resources", 0, "mount_path"): BAD_PATHS,
                 ("resources", 1, "url"): ("http://github.com/a/b", "https://example.com/a/b", "github.com/a/b", ""),
                 ("resources", 1, "checkout", "type"): ("tag",),
                 ("resources", 1, "checkout", "name"): ("", "--upload-pack=x", "a b"),
                 ("resources", 2, "access"): ("append",), ("resources", 2, "instructions"): ("x" * 4097,)}
BAD_EVENTS = {("type",): ("user.shout", "agent.message", ""), ("content",): ([], ""), ("content", 0, "type"): ("sound", ""),
              ("content", 0, "text"): ("", " \n")}


def below(path, wrong):
    return {(*path, *place): values for place, values in wrong.items()}


BAD_SESSION = {**BAD_BUDGET, **BAD_RESOURCES, **BAD_METADATA, **below(("initial_events", 0), BAD_EVENTS),
               ("agent", "type"): ("person",), ("agent", "version"): (0,)}
BAD_DEPLOYMENT = {
    **BAD_SESSION, ("name",): BAD_NAMES, ("schedule", "type"): ("rrule",),
    ("schedule", "expression"): ("", "* * * *", "* * * * * *", "61 * * * *", "* 24 * * *", "* * 0 * *", "@daily",
                                 "0 0 L * *", "*/0 * * * *"),
    ("schedule", "timezone"): ("", "Mars/Olympus", "../../etc/passwd", "/etc/localtime", "CET+25"),
    ("schedule", "missed_runs"): ("sometimes",), ("schedule", "late_seconds"): (0, 10**9)}
BAD_NOTE = {("path",): ("a.md", "/", "/a//b", "/../b", "/a/", "/" + "x" * 1100, "/a\u2028b", "/" * 30),
            ("content",): ("x" * 102_401,)}
BAD_CREDENTIAL = {("auth", "type"): ("password",), ("auth", "secret_value"): ("", "short", "a" * 40),
                  ("auth", "networking", "type"): ("unrestricted",),
                  ("auth", "networking", "allowed_hosts", 0): (*BAD_HOSTS, "127.0.0.1", "*", "*.*.example.com"),
                  ("auth", "injection_location"): ({"header": False, "body": False},)}


def agent(_):
    return {"name": "worker", "description": "works", "system": "Work.", "model": {"id": "stage", "effort": {"type": "low"}},
            "tools": [TOOLSET, CUSTOM], "mcp_servers": [], "skills": [], "metadata": {"team": "a"}}


def environment(_):
    return {"name": "plain", "description": "an environment", "config": CLOUD, "metadata": {"team": "a"}}


def session(world):
    return {"agent": {"type": "agent", "id": world["agent"], "version": 1}, "environment_id": world["environment"],
            "title": "a title", "metadata": {"team": "a"}, "vault_ids": [world["vault"]], "budget": BUDGET,
            "initial_events": [HELLO], "resources": [
                {"type": "file", "file_id": world["file"], "mount_path": "/data/a.txt"},
                {"type": "github_repository", "url": "https://github.com/owner/name", "mount_path": "/workspace/name",
                 "checkout": {"type": "branch", "name": "main"}},
                {"type": "memory_store", "memory_store_id": world["store"], "access": "read_only", "instructions": "read it"}]}


def deployment(world):
    made = {key: value for key, value in session(world).items() if key != "title"}
    return {**made, "name": "nightly", "description": "a deployment", "schedule": SCHEDULE}


def credential(world):
    return {"display_name": "seen", "metadata": {"team": "a"}, "auth": {
        "type": "environment_variable", "secret_name": "SEEN_TOKEN", "secret_value": world["secret"],
        "networking": {"type": "limited", "allowed_hosts": ["seen.example.net"]},
        "injection_location": {"header": True, "body": False}}}


def rows():
    own = {"id": "own_environment", "work": "work"}
    memory = {"id": "store", "memory": "memory"}
    version = {"id": "store", "version": "version"}
    archived_store = {"id": "archived_store"}
    archived_vault = {"id": "archived_vault"}
    credential_of = {"id": "vault", "credential": "credential"}
    archived_credential = {"credential": "archived_credential"}
    thread = {"id": "session", "thread": "thread"}
    resource = {"id": "session", "resource": "resource"}
    return {
        "POST /v1/agents": Row(body=agent, wrong=BAD_AGENT),
        "GET /v1/agents": Row(is_list=True, queries=(*PAGES, *TIMES, "include_archived=perhaps")),
        "GET /v1/agents/{id}": Row({"id": "agent"}, archived={"id": "archived_agent"}, archived_status=200,
                                   queries=("version=first", "version=-1")),
        "POST /v1/agents/{id}": Row({"id": "agent"}, lambda world: {**agent(world), "version": 1, "name": "changed"},
                                    archived={"id": "archived_agent"}, step=CHANGE, wrong=BAD_AGENT, stale={("version",): 7}),
        "GET /v1/agents/{id}/versions": Row({"id": "agent"}, is_list=True, queries=PAGES, archived={"id": "archived_agent"},
                                            archived_status=200),
        "POST /v1/agents/{id}/archive": Row({"id": "agent"}, archived={"id": "archived_agent"}, archived_status=200, step=PARENT),

        "POST /v1/environments": Row(body=environment, wrong=BAD_ENVIRONMENT),
        "GET /v1/environments": Row(is_list=True, queries=(*PAGES, "include_archived=1")),
        "GET /v1/environments/{id}": Row({"id": "environment"}, archived={"id": "archived_environment"}, archived_status=200),
        "POST /v1/environments/{id}": Row({"id": "environment"}, environment, archived={"id": "archived_environment"}, step=CHANGE,
                                           wrong={**BAD_ENVIRONMENT, ("config",): ({"type": "self_hosted"},)}),
        "DELETE /v1/environments/{id}": Row({"id": "own_environment"}, step=PARENT),
        "POST /v1/environments/{id}/archive": Row({"id": "environment"}, archived={"id": "archived_environment"},
                                                  archived_status=200, step=PARENT),
        "GET /v1/environments/{id}/work/poll": Row({"id": "own_environment"}, archived={"id": "environment"},
                                                   queries=("block_ms=soon", "block_ms=-1", "reclaim_older_than_ms=x")),
        "GET /v1/environments/{id}/work/stats": Row({"id": "own_environment"}, archived={"id": "environment"}),
        "GET /v1/environments/{id}/work": Row({"id": "own_environment"}, is_list=True, queries=PAGES,
                                              archived={"id": "environment"}),
        "GET /v1/environments/{id}/work/{work}": Row(own, archived={"id": "environment"}),
        "POST /v1/environments/{id}/work/{work}": Row(own, lambda _: {"metadata": {"host": "h1"}}, archived={"id": "environment"},
                                                      step=CHANGE),
        "POST /v1/environments/{id}/work/{work}/ack": Row(own, archived={"id": "environment"}, step=CHANGE),
        "POST /v1/environments/{id}/work/{work}/heartbeat": Row(
            own, archived={"id": "environment"}, step=REST, queries=("desired_ttl_seconds=long", "desired_ttl_seconds=-5")),
        "POST /v1/environments/{id}/work/{work}/stop": Row(own, lambda _: {"force": True}, archived={"id": "environment"},
                                                           step=CHILD),

        "POST /v1/sessions": Row(body=session, borrows=True, wrong={**BAD_SESSION, ("title",): ("x" * 257,)}),
        "GET /v1/sessions": Row(is_list=True, queries=(*PAGES, *TIMES, "statuses%5B%5D=tired", "order=up", "agent_version=x",
                                                       "include_archived=x", "memory_store_id=%00")),
        "GET /v1/sessions/{id}": Row({"id": "session"}, archived={"id": "archived_session"}, archived_status=200),
        "POST /v1/sessions/{id}": Row({"id": "session"}, lambda _: {
            "title": "another", "metadata": {"team": "b"}, "agent": {"tools": [TOOLSET], "mcp_servers": []}, "budget": None},
            archived={"id": "archived_session"}, step=CHANGE),
        "DELETE /v1/sessions/{id}": Row({"id": "session"}, step=PARENT),
        "POST /v1/sessions/{id}/archive": Row({"id": "session"}, archived={"id": "archived_session"}, archived_status=200,
                                              step=CHILD),
        "GET /v1/sessions/{id}/resources": Row({"id": "session"}, is_list=True, queries=PAGES,
                                               archived={"id": "archived_session"}, archived_status=200),
        "POST /v1/sessions/{id}/resources": Row({"id": "session"}, lambda world: {
            "type": "file", "file_id": world["file"], "mount_path": "/data/b.txt"}, borrows=True,
            archived={"id": "archived_session"},
            wrong={("mount_path",): BAD_PATHS, ("type",): ("github_repository", "memory_store")}),
        "GET /v1/sessions/{id}/resources/{resource}": Row(resource),
        # What could be changed is kept in vaults.
        "POST /v1/sessions/{id}/resources/{resource}": Row(resource, status=400),
        "DELETE /v1/sessions/{id}/resources/{resource}": Row(resource, step=REST),
        "GET /v1/sessions/{id}/events": Row({"id": "session"}, is_list=True, archived={"id": "archived_session"},
                                            archived_status=200, queries=(*PAGES, *TIMES, "order=up")),
        "POST /v1/sessions/{id}/events": Row({"id": "session"}, lambda world: {"events": [
            {"type": "user.message", "content": [
                {"type": "text", "text": "hello"},
                {"type": "document", "title": "a", "context": "b",
                 "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
                {"type": "document", "source": {"type": "file", "file_id": world["file"]}}]},
            {"type": "user.interrupt"}, OUTCOME]}, borrows=True,
            archived={"id": "archived_session"}, archived_status=409, step=CHANGE, wrong={
            **below(("events", 0), BAD_EVENTS),
            ("events",): ([], [{"type": "system.message", "content": "x"}], [OUTCOME, OUTCOME], [HELLO] * 51),
            ("events", 1, "session_thread_id"): ("sthr_none",),
            ("events", 0, "content", 1, "source", "media_type"): ("text/html", "image/png"),
            ("events", 2, "max_iterations"): (0, 21), ("events", 2, "rubric", "type"): ("url",)}),
        "GET /v1/sessions/{id}/events/stream": Row({"id": "session"}, is_stream=True,
                                                   queries=("event_deltas%5B%5D=agent.dream",)),
        "GET /v1/sessions/{id}/threads": Row({"id": "session"}, is_list=True, archived={"id": "archived_session"},
                                             archived_status=200, queries=(*PAGES, "statuses%5B%5D=tired")),
        "GET /v1/sessions/{id}/threads/{thread}": Row(thread),
        # The first thread ends with its session.
        "POST /v1/sessions/{id}/threads/{thread}/archive": Row(thread, status=400),
        "GET /v1/sessions/{id}/threads/{thread}/events": Row(thread, is_list=True, queries=(*PAGES, *TIMES, "order=up")),
        "GET /v1/sessions/{id}/threads/{thread}/stream": Row(thread, is_stream=True, queries=("event_deltas%5B%5D=agent.dream",)),

        "POST /v1/deployments": Row(body=deployment, borrows=True, wrong=BAD_DEPLOYMENT),
        "GET /v1/deployments": Row(is_list=True, queries=(*PAGES, *TIMES, "status=tired", "include_archived=x")),
        "GET /v1/deployments/{id}": Row({"id": "deployment"}, archived={"id": "archived_deployment"}, archived_status=200),
        "POST /v1/deployments/{id}": Row({"id": "deployment"}, deployment, borrows=True, archived={"id": "archived_deployment"},
                                         step=CHANGE, wrong=BAD_DEPLOYMENT),
        "POST /v1/deployments/{id}/archive": Row({"id": "deployment"}, archived={"id": "archived_deployment"},
                                                 archived_status=200, step=PARENT),
        "POST /v1/deployments/{id}/pause": Row({"id": "deployment"}, archived={"id": "archived_deployment"}, step=CHANGE),
        "POST /v1/deployments/{id}/unpause": Row({"id": "deployment"}, archived={"id": "archived_deployment"}, step=REST),
        "POST /v1/deployments/{id}/run": Row({"id": "deployment"}, archived={"id": "archived_deployment"}, step=REST),
        "GET /v1/deployment_runs": Row(is_list=True, queries=(*PAGES, *TIMES, "has_error=x", "trigger_type=x")),
        "GET /v1/deployment_runs/{id}": Row({"id": "run"}),

        "POST /v1/files": Row(is_upload=True),
        "GET /v1/files": Row(is_list=True, queries=(*PAGES, "ids%5B%5D=a&limit=1", "&".join(["ids%5B%5D=a"] * 101))),
        "GET /v1/files/{id}": Row({"id": "file"}),
        "GET /v1/files/{id}/content": Row({"id": "file"}),
        "DELETE /v1/files/{id}": Row({"id": "file"}, step=PARENT),

        "POST /v1/memory_stores": Row(body=lambda _: {"name": "notes", "description": "of all", "metadata": {"team": "a"}},
                                      wrong={("name",): BAD_NAMES, ("description",): ("x" * 1025,), **BAD_METADATA}),
        "GET /v1/memory_stores": Row(is_list=True, queries=(*PAGES, *TIMES, "include_archived=x")),
        "GET /v1/memory_stores/{id}": Row({"id": "store"}, archived=archived_store, archived_status=200),
        "POST /v1/memory_stores/{id}": Row({"id": "store"}, lambda _: {
            "name": "others", "description": "of some", "metadata": {"team": "b"}}, archived=archived_store, step=CHANGE),
        "DELETE /v1/memory_stores/{id}": Row({"id": "store"}, step=PARENT),
        "POST /v1/memory_stores/{id}/archive": Row({"id": "store"}, archived=archived_store, archived_status=200, step=CHILD),
        "POST /v1/memory_stores/{id}/memories": Row({"id": "store"}, lambda _: {"path": "/new.md", "content": "new"},
                                                    archived=archived_store, queries=("view=all",), wrong=BAD_NOTE),
        "GET /v1/memory_stores/{id}/memories": Row({"id": "store"}, is_list=True, archived=archived_store, archived_status=200,
                                                   queries=(*PAGES, "depth=2", "depth=x", "view=all", "path_prefix=a")),
        "GET /v1/memory_stores/{id}/memories/{memory}": Row(memory, queries=("view=all",)),
        "POST /v1/memory_stores/{id}/memories/{memory}": Row(memory, lambda world: {
            "path": "/renamed.md", "content": "changed",
            "precondition": {"type": "content_sha256", "content_sha256": world["digest"]}}, step=CHANGE, queries=("view=all",),
            wrong=BAD_NOTE, stale={("precondition", "content_sha256"): "0" * 64}),
        "DELETE /v1/memory_stores/{id}/memories/{memory}": Row(memory, step=REST),
        "GET /v1/memory_stores/{id}/memory_versions": Row({"id": "store"}, is_list=True, archived=archived_store,
                                                          archived_status=200,
                                                          queries=(*PAGES, *TIMES, "operation=x", "view=all")),
        "GET /v1/memory_stores/{id}/memory_versions/{version}": Row(version, queries=("view=all",)),
        "POST /v1/memory_stores/{id}/memory_versions/{version}/redact": Row(version, step=REST),

        "POST /v1/vaults": Row(body=lambda _: {"display_name": "ours", "metadata": {"team": "a"}},
                               wrong={("display_name",): BAD_NAMES, **BAD_METADATA}),
        "GET /v1/vaults": Row(is_list=True, queries=(*PAGES, "include_archived=x")),
        "GET /v1/vaults/{id}": Row({"id": "vault"}, archived=archived_vault, archived_status=200),
        "POST /v1/vaults/{id}": Row({"id": "vault"}, lambda _: {"display_name": "theirs", "metadata": {"team": "b"}},
                                    archived=archived_vault, step=CHANGE),
        "DELETE /v1/vaults/{id}": Row({"id": "vault"}, step=PARENT),
        "POST /v1/vaults/{id}/archive": Row({"id": "vault"}, archived=archived_vault, archived_status=200, step=CHILD),
        "POST /v1/vaults/{id}/credentials": Row({"id": "vault"}, lambda world: {
            **credential(world), "auth": {**credential(world)["auth"], "secret_name": "ANOTHER_TOKEN"}},
            archived=archived_vault, wrong={**BAD_CREDENTIAL, ("auth", "secret_name"): ("", "1A", "A-B", "A B")}),
        "GET /v1/vaults/{id}/credentials": Row({"id": "vault"}, is_list=True, queries=(*PAGES, "include_archived=x")),
        "GET /v1/vaults/{id}/credentials/{credential}": Row(credential_of, archived=archived_credential, archived_status=200),
        "POST /v1/vaults/{id}/credentials/{credential}": Row(credential_of, lambda world: {
            "display_name": "changed", "metadata": {"team": "b"}, "auth": {
                key: value for key, value in credential(world)["auth"].items() if key != "secret_name"}},
            archived=archived_credential, step=CHANGE, wrong=BAD_CREDENTIAL),
        "DELETE /v1/vaults/{id}/credentials/{credential}": Row(credential_of, step=REST),
        "POST /v1/vaults/{id}/credentials/{credential}/archive": Row(credential_of, archived=archived_credential,
                                                                     archived_status=200, step=CHANGE + 0.5),
        # Only tokens of MCP servers have somebody who can be asked about them.
        "POST /v1/vaults/{id}/credentials/{credential}/mcp_oauth_validate": Row(credential_of, status=400,
                                                                                archived=archived_credential),
    }


# ---- another call made of one that is taken

def nodes(value, path=()):
    """(path, value) of everything below, and of what is free only itself."""
    yield path, value
    if path and path[-1] in FREE:
        return
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from nodes(below, (*path, key))


def replaced(value, path, other):
    if not path:
        return other
    if isinstance(value, dict):
        return {key: replaced(below, path[1:], other) if key == path[0] else below for key, below in value.items()}
    return [replaced(below, path[1:], other) if i == path[0] else below for i, below in enumerate(value)]


# Which no member of any body may be instead.
WRONG = {str: (7, [7]), bool: (7, "perhaps"), int: ("x", [7], -1, 1.5, 10**30), list: (7, {"colour": "red"}), dict: (7, [7])}
LONG = "x" * (6 << 20)
MANY = 20_000


def with_wrong_types(body):
    for path, value in nodes(body):
        for other in WRONG.get(type(value), ()) if path else ():
            yield f"{path} = {other!r}", replaced(body, path, other)


def with_unknown_members(body):
    for path, value in nodes(body):
        if isinstance(value, dict) and not (path and path[-1] in FREE):
            yield f"{path} has colour", replaced(body, path, {**value, "colour": "red"})


def with_too_much(body):
    for path, value in nodes(body):
        if isinstance(value, str):
            yield f"{path} is long", replaced(body, path, LONG)
        elif isinstance(value, list) and value:
            yield f"{path} has many", replaced(body, path, value[:1] * MANY)
        elif path and path[-1] == "metadata":
            yield f"{path} has many", replaced(body, path, {str(i): "x" for i in range(MANY)})


def with_values(body, wrong):
    for path, values in wrong.items():
        for value in values:
            yield f"{path} = {str(value)[:60]!r}", replaced_or_added(body, path, value)


def replaced_or_added(body, path, value):
    """Also a member that the body has not, below one that it has."""
    outer = body
    for key in path[:-1]:
        outer = outer[key]
    if isinstance(outer, dict) and path[-1] not in outer:
        return replaced(body, path[:-1], {**outer, path[-1]: value})
    return replaced(body, path, value)


def with_nul(body):
    for path, value in nodes(body):
        if isinstance(value, str):
            yield f"{path} has a NUL", replaced(body, path, value + "\0")
