// Agents with MCP servers: their tools are listed, asked for and called, whatever the server does.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, beta, made, of, refused, said, say, stop, turn } from './support.mjs'

const URL = 'https://seen.example.net/mcp'
const always = (type) => ({ enabled: true, permission_policy: { type } })
const environment = { config: { type: 'cloud', networking: { type: 'limited', allow_mcp_servers: true } } }
const agent = (way, toolset) => ({
  mcp_servers: [{ type: 'url', name: 'far', url: way ? `${URL}?way=${way}` : URL }],
  tools: [{ type: 'mcp_toolset', mcp_server_name: 'far', ...toolset }],
})
const free = { default_config: always('always_allow') }
const careful = { default_config: always('always_ask') }
const begin = (way, toolset = free) => made({ agent: agent(way, toolset), environment })
const uses = (heard) => of(heard, 'agent.mcp_tool_use')
const answers = (heard) => of(heard, 'agent.mcp_tool_result')
const confirm = (use, result, more = {}) => ({ type: 'user.tool_confirmation', tool_use_id: use.id, result, ...more })

test('a tool is called as the agent may', async () => {
  const session = await begin('')
  assert.deepEqual(session.agent.mcp_servers, [{ type: 'url', name: 'far', url: URL }])
  const heard = await turn(session, [say('ask who I am')])
  const [use] = uses(heard)
  assert.deepEqual([use.name, use.mcp_server_name, use.evaluated_permission], ['whoami', 'far', 'allow'])
  assert.equal(answers(heard)[0].mcp_tool_use_id, use.id)
  assert.equal(answers(heard)[0].content[0].text, 'you are <nobody>')
  assert.deepEqual(said(heard), ['I heard: you are <nobody>'])
})

test('a tool that asks is called when a person has allowed it', async () => {
  const session = await begin('', careful)
  const asked = await turn(session, [say('ask who I am')])
  const [use] = uses(asked)
  assert.equal(use.evaluated_permission, 'ask')
  assert.deepEqual(stop(asked), { type: 'requires_action', event_ids: [use.id] })
  assert.deepEqual(answers(asked), [])
  const heard = await turn(session, [confirm(use, 'allow')])
  assert.equal(answers(heard)[0].content[0].text, 'you are <nobody>')

  const again = await turn(session, [say('ask again')])
  const denied = await turn(session, [confirm(uses(again)[0], 'deny', { deny_message: 'not twice' })])
  assert.equal(answers(denied)[0].is_error, true)
  assert.match(said(denied)[0], /not twice/)
  await refused(beta.sessions.events.send(session.id, { events: [confirm(use, 'deny')] }), 400)
})

test('one tool may be free where the others ask', async () => {
  const session = await begin('', { ...careful, configs: [{ name: 'whoami', ...always('always_allow') }] })
  const heard = await turn(session, [say('ask who I am')])
  assert.equal(uses(heard)[0].evaluated_permission, 'allow')
  assert.deepEqual(stop(heard), { type: 'end_turn' })
})

test('a tool that is switched off is not there', async () => {
  const session = await begin('', { ...free, configs: [{ name: 'whoami', enabled: false }] })
  const heard = await turn(session, [say('ask who I am')])
  assert.match(said(heard)[0], /no tool of this name/)
})

test('a tool that has changed waits until somebody has looked at it', async () => {
  const before = await turn(await begin('changing'), [say('ask who I am')])
  assert.equal(answers(before)[0].content[0].text, 'you are <nobody>')
  const heard = await turn(await begin('changing'), [say('ask who I am')])
  const [trouble] = of(heard, 'session.error')
  assert.equal(trouble.error.mcp_server_name, 'far')
  assert.match(trouble.error.message, /whoami/)
  assert.match(said(heard)[0], /no tool of this name/)
  assert.deepEqual(stop(heard), { type: 'end_turn' }, 'the turn goes on without it')
})

test('a tool whose schema is none is left out, and the others are there', async () => {
  const session = await begin('lying')
  const heard = await turn(session, [say('ask who I am')])
  assert.match(of(heard, 'session.error')[0].error.message, /liar/)
  assert.deepEqual(said(heard), ['I heard: you are <nobody>'])
  assert.match(said(await turn(await begin('lying'), [say('ask the liar')]))[0], /no tool of this name/)
})

test('an answer of a hundred megabytes is given up', async () => {
  const session = await begin('large')
  const heard = await turn(session, [say('ask who I am')])
  const [answer] = answers(heard)
  assert.equal(answer.is_error, true)
  assert.match(answer.content[0].text, /longer than[^]*may have run/)
  assert.deepEqual(stop(heard), { type: 'end_turn' })
  assert.equal((await beta.sessions.retrieve(session.id)).status, 'idle')
})

test('a server that hangs is waited for until somebody interrupts', async () => {
  const session = await begin('hanging')
  const stream = await beta.sessions.events.stream(session.id)
  await beta.sessions.events.send(session.id, { events: [say('ask who I am')] })
  const heard = []
  for await (const event of stream) {
    heard.push(event)
    if (event.type === 'agent.mcp_tool_use') await beta.sessions.events.send(session.id, { events: [{ type: 'user.interrupt' }] })
    if (event.type === 'session.status_idle') break
  }
  assert.equal(answers(heard)[0].is_error, true)
  assert.match(answers(heard)[0].content[0].text, /interrupted/)
  assert.equal(answers(await all(beta.sessions.events.list(session.id))).length, 1)
})

test('a server that is not there costs its tools and no more', async () => {
  const nowhere = { ...agent('', free), mcp_servers: [{ type: 'url', name: 'far', url: 'https://nowhere.example.net/mcp' }] }
  const heard = await turn(await made({ agent: nowhere, environment }), [say('ask who I am')])
  assert.equal(of(heard, 'session.error')[0].error.type, 'mcp_connection_failed_error')
  assert.deepEqual(stop(heard), { type: 'end_turn' })
  const closed = await turn(await made({ agent: agent('', free) }), [say('ask who I am')])
  assert.equal(of(closed, 'session.error')[0].error.type, 'mcp_connection_failed_error', 'its environment does not reach it')
})
