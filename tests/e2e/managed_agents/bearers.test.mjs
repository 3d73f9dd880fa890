// MCP servers get the token that a vault of the session has for them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { beta, made, of, say, TOOLSET, turn } from './support.mjs'

const SECRET = process.env.PONS_SECRET_VALUE
const url = 'https://seen.example.net/mcp'
const agent = {
  mcp_servers: [{ type: 'url', name: 'seen', url }],
  tools: [TOOLSET, { type: 'mcp_toolset', mcp_server_name: 'seen', default_config: { enabled: true, permission_policy: { type: 'always_allow' } } }],
}
const environment = { config: { type: 'cloud', networking: { type: 'limited', allow_mcp_servers: true } } }
const answers = (heard) => of(heard, 'agent.mcp_tool_result').map((event) => event.content[0].text)

test('a server gets its token, and nobody else does', async () => {
  const vault = await beta.vaults.create({ display_name: 'ours' })
  await beta.vaults.credentials.create(vault.id, { auth: { type: 'static_bearer', token: SECRET, mcp_server_url: url } })
  const session = await made({ agent, environment, session: { vault_ids: [vault.id] } })
  const heard = await turn(session, [say('ask who I am')])
  assert.match(answers(heard)[0], /you are <bearer \S{16,}>/i)
  assert.ok(!JSON.stringify(heard).includes(SECRET))
  const without = await turn(await made({ agent, environment }), [say('ask who I am')])
  assert.match(answers(without)[0], /you are <nobody>/)
})
