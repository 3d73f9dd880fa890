// Agents: versions, tools with every default, and what is refused.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, beta, client, others, refused, TOOLSET } from './support.mjs'

test('an agent has every field, and its tools every default', async () => {
  const agent = await beta.agents.create({
    name: 'coder',
    model: { id: 'stage', effort: 'low' },
    system: 'Be brief.',
    tools: [
      { ...TOOLSET, configs: [{ name: 'bash', permission_policy: { type: 'always_ask' } }] },
      { type: 'custom', name: 'get_weather', description: 'The weather.', input_schema: { type: 'object' } },
    ],
    metadata: { team: 'a' },
  })
  assert.match(agent.id, /^agent_/)
  assert.equal(agent.type, 'agent')
  assert.equal(agent.version, 1)
  assert.deepEqual(agent.model, { id: 'stage', effort: { type: 'low' }, speed: 'standard' })
  assert.deepEqual(agent.tools[0].default_config, { enabled: true, permission_policy: { type: 'always_allow' } })
  assert.deepEqual(agent.tools[0].configs, [
    { type: 'bash', name: 'bash', enabled: true, permission_policy: { type: 'always_ask' } },
  ])
  assert.equal(agent.description, null)
  assert.deepEqual([agent.mcp_servers, agent.skills, agent.multiagent], [[], [], null])
  assert.deepEqual(agent.execution_identity, { type: 'service_account' })
  assert.equal(agent.archived_at, null)
  assert.ok(Date.parse(agent.created_at))
  assert.ok(agent._request_id)
})

test('a change is a new version, and old ones stay', async () => {
  const agent = await beta.agents.create({ name: 'a', model: 'stage', metadata: { keep: '1', drop: '2' } })
  const second = await beta.agents.update(agent.id, { version: 1, name: 'b', metadata: { drop: null, more: '3' } })
  assert.equal(second.version, 2)
  assert.deepEqual(second.metadata, { keep: '1', more: '3' })
  assert.equal((await beta.agents.update(agent.id, { name: 'b' })).version, 2, 'nothing new is no new version')
  assert.equal((await beta.agents.retrieve(agent.id, { version: 1 })).name, 'a')
  assert.equal((await beta.agents.retrieve(agent.id)).name, 'b')
  assert.deepEqual((await all(beta.agents.versions.list(agent.id))).map((each) => each.version), [2, 1])
  await refused(beta.agents.update(agent.id, { version: 1, name: 'c' }), 409, 'ConflictError', /version 2/)
  await refused(beta.agents.retrieve(agent.id, { version: 9 }), 404, 'NotFoundError')
})

test('lists come in pages, newest first, without what is archived', async () => {
  const made = []
  for (let i = 0; i < 5; i++) made.push((await beta.agents.create({ name: `listed ${i}`, model: 'stage' })).id)
  const archived = await beta.agents.archive(made[0])
  assert.ok(archived.archived_at)
  const ids = (await all(beta.agents.list({ limit: 2 }))).map((agent) => agent.id)
  assert.deepEqual(ids.filter((id) => made.includes(id)), made.slice(1).reverse())
  const with_archived = await all(beta.agents.list({ limit: 2, include_archived: true }))
  assert.ok(with_archived.some((agent) => agent.id === made[0]))
  const later = await all(beta.agents.list({ 'created_at[gte]': '2999-01-01T00:00:00Z' }))
  assert.deepEqual(later, [])
  await refused(beta.agents.update(made[0], { name: 'x' }), 400, 'BadRequestError', /archived/)
  await refused(beta.agents.list({ page: 'nonsense' }), 400, 'BadRequestError', /page/)
})

test('what is wrong is refused with its place', async () => {
  const create = (more) => beta.agents.create({ name: 'x', model: 'stage', ...more })
  await refused(create({ name: '' }), 400, 'BadRequestError', /\/name/)
  await refused(create({ name: 'x'.repeat(257) }), 400, 'BadRequestError', /longer than 256/)
  await refused(create({ model: null }), 400, 'BadRequestError', /model/)
  await refused(create({ nonsense: 1 }), 400, 'BadRequestError', /nonsense/)
  await refused(create({ tools: [{ type: 'telepathy' }] }), 400, 'BadRequestError', /\/tools\/0\/type/)
  await refused(create({ tools: [{ ...TOOLSET, configs: [{ name: 'rm' }] }] }), 400, 'BadRequestError', /configs\/0\/name/)
  await refused(create({ tools: [{ type: 'custom', name: 'bash', description: 'd', input_schema: { type: 'object' } }] }), 400, 'BadRequestError', /built-in/)
  await refused(create({ metadata: Object.fromEntries([...Array(17)].map((_, i) => [`k${i}`, 'v'])) }), 400, 'BadRequestError', /16/)
  await refused(create({ mcp_servers: [{ type: 'url', name: 'm', url: 'https://m.example' }] }), 400, 'BadRequestError', /in no mcp_toolset/)
  await refused(beta.agents.retrieve('agent_none'), 404, 'NotFoundError')
  const raw = await fetch(`${process.env.PONS_URL}/v1/agents`, {
    method: 'POST',
    headers: { authorization: `Bearer ${process.env.PONS_KEY}`, 'content-type': 'application/json' },
    body: '{"name": ',
  })
  assert.equal(raw.status, 400)
  assert.equal((await raw.json()).error.type, 'invalid_request_error')
})

test('agents of another project are not there', async () => {
  const agent = await beta.agents.create({ name: 'mine', model: 'stage' })
  await refused(others.agents.retrieve(agent.id), 404, 'NotFoundError')
  await refused(others.agents.update(agent.id, { name: 'theirs' }), 404, 'NotFoundError')
  await refused(others.agents.archive(agent.id), 404, 'NotFoundError')
  await refused(others.agents.versions.list(agent.id), 404, 'NotFoundError')
  assert.ok(!(await all(others.agents.list())).some((each) => each.id === agent.id))
  assert.equal((await beta.agents.retrieve(agent.id)).archived_at, null)
})

test('a key that is none is refused as the SDK knows it', async () => {
  const wrong = client.withOptions({ apiKey: 'pons_0000000000000000000000000000000000000000' })
  await refused(wrong.beta.agents.list(), 401, 'AuthenticationError')
})
