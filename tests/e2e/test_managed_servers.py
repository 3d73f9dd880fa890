"""Agents of the Managed Agents API with MCP servers of others, good ones and such as cannot be trusted."""

import unittest

from boundary.world import enter
from managed_world import ManagedWorld
from session_world import calls, play, text
from test_managed import tool


def setUpModule():
    enter()


class ManagedServers(ManagedWorld):
    ANSWERS = [
        *play("ask who I am", calls(tool("far__whoami")), text("I heard: {tool_result}")),
        *play("ask again", calls(tool("far__whoami")), text("Again: {tool_result}"), said_before=2),
        *play("ask the liar", calls(tool("far__liar")), text("I heard: {tool_result}")),
    ]

    def test_servers_of_agents(self):
        self.run_suite("servers")


if __name__ == "__main__":
    unittest.main()
