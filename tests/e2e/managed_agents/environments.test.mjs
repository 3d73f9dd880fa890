// Environments: networking and packages with every default, and what is refused.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TOOLSET, all, beta, client, made, of, others, refused, say, turn } from './support.mjs'

test('an environment has every field, and its config every default', async () => {
  const environment = await beta.environments.create({
    name: 'e',
    config: { type: 'cloud', networking: { type: 'limited', allowed_hosts: ['api.example.com', '*.example.org'] } },
  })
  assert.match(environment.id, /^env_/)
  assert.equal(environment.type, 'environment')
  assert.deepEqual(environment.config.networking, {
    type: 'limited',
    allowed_hosts: ['api.example.com', '*.example.org'],
    allow_mcp_servers: false,
    allow_package_managers: false,
  })
  assert.deepEqual(environment.config.packages, { type: 'packages', apt: [], cargo: [], gem: [], go: [], npm: [], pip: [] })
  assert.equal((await beta.environments.create({ name: 'f' })).config.networking.type, 'unrestricted')
})

test('parts of it change, and the rest stays', async () => {
  const { id } = await beta.environments.create({ name: 'e', metadata: { a: '1', b: '2' }, description: 'd' })
  const changed = await beta.environments.update(id, {
    config: { type: 'cloud', networking: { type: 'limited' } },
    metadata: { a: '' },
  })
  assert.deepEqual(changed.metadata, { b: '2' })
  assert.equal(changed.description, 'd')
  assert.equal(changed.config.networking.type, 'limited')
  const wrong = await refused(beta.environments.update(id, { config: { type: 'self_hosted' } }), 400)
  assert.equal(wrong.errorCode, 'invalid_config_type_change')
})

test('what an update leaves out of networking and packages stays', async () => {
  const networking = { type: 'limited', allowed_hosts: ['api.example.com'], allow_package_managers: true }
  const { id } = await beta.environments.create({ name: 'e', config: { type: 'cloud', networking } })
  const change = (config) => beta.environments.update(id, { config: { type: 'cloud', ...config } })
  const wider = (await change({ networking: { type: 'limited', allow_mcp_servers: true } })).config
  assert.deepEqual(wider.networking, { ...networking, allow_mcp_servers: true })
  const closed = (await change({ networking: { type: 'limited', allowed_hosts: [], allow_package_managers: null } })).config
  assert.deepEqual(closed.networking, { type: 'limited', allowed_hosts: [], allow_mcp_servers: true, allow_package_managers: false })
  const open = (await change({ networking: { type: 'unrestricted' } })).config
  assert.deepEqual(open.networking, { type: 'unrestricted' })
  const again = (await change({ networking: { type: 'limited' } })).config
  assert.deepEqual(again.networking.allowed_hosts, [], 'what was once allowed does not come back')
  assert.equal(again.networking.allow_mcp_servers, false)
})

test('web_fetch fetches from the hosts that its configuration names', async () => {
  const configs = [
    { name: 'web_fetch', allowed_domains: ['docs.example.net'], max_content_tokens: 100, url_sources: { user_input: 'all' } },
    { name: 'web_search', blocked_domains: ['example.net/ads'], user_location: { type: 'approximate', city: 'Bern' } },
  ]
  const session = await made({ agent: { tools: [{ ...TOOLSET, configs }] } })
  const [fetching, searching] = session.agent.tools[0].configs
  assert.deepEqual(fetching.url_sources, { user_input: { type: 'all' }, client_tool_results: null, server_tool_results: null })
  assert.deepEqual(searching.user_location, { type: 'approximate', city: 'Bern', region: null, country: null, timezone: null })
  const events = await turn(session, [say('fetch a page')])
  const [result] = of(events, 'agent.tool_result')
  assert.equal(result.is_error, true)
  assert.match(result.content[0].text, /docs\.example\.net/)
  for (const config of [
    { name: 'web_fetch', url_sources: { user_input: 'none' } },
    { name: 'web_fetch', allowed_domains: ['docs.example.net/path'] },
    { name: 'web_search', user_location: { type: 'exact' } },
    { name: 'web_search', max_content_tokens: 1 },
  ]) await refused(made({ agent: { tools: [{ ...TOOLSET, configs: [config] }] } }), 400, 'BadRequestError')
})

test('wrong metadata of an environment has a code of its own', async () => {
  const wrong = await refused(beta.environments.create({ name: 'e', metadata: { a: 'x'.repeat(10_000) } }), 400)
  assert.equal(wrong.errorCode, 'invalid_metadata')
})

test('what is not there is refused in the same shape', async () => {
  const error = await refused(client.get('/v1/nothing/of/this'), 404, 'NotFoundError')
  assert.equal(error.error.error.type, 'not_found_error')
  await refused(client.post('/v1/skills', { body: {} }), 404, 'NotFoundError')
  await refused(client.put('/v1/agents', { body: {} }), 404, 'NotFoundError')
})

test('it is archived, listed and deleted', async () => {
  const kept = await beta.environments.create({ name: 'kept' })
  const gone = await beta.environments.create({ name: 'gone' })
  assert.ok((await beta.environments.archive(gone.id)).archived_at)
  const ids = (await all(beta.environments.list({ limit: 1 }))).map((each) => each.id)
  assert.ok(ids.includes(kept.id) && !ids.includes(gone.id))
  assert.equal((await refused(beta.environments.update(gone.id, { name: 'x' }), 400)).errorCode, 'environment_archived')
  assert.deepEqual(await beta.environments.delete(gone.id), { id: gone.id, type: 'environment_deleted' })
  await refused(beta.environments.retrieve(gone.id), 404, 'NotFoundError')
})

test('what is wrong, or another project’s, is refused', async () => {
  const create = (config) => beta.environments.create({ name: 'x', config: { type: 'cloud', ...config } })
  await refused(create({ networking: { type: 'limited', allowed_hosts: ['https://a.example'] } }), 400, 'BadRequestError', /no host/)
  await refused(create({ packages: { pip: ['x; rm -rf /'] } }), 400, 'BadRequestError', /no package of pip/)
  await refused(create({ networking: { type: 'limited' }, packages: { pip: ['pandas'] } }), 400, 'BadRequestError', /allow_package_managers/)
  await refused(create({ networking: { type: 'open' } }), 400, 'BadRequestError', /networking\/type/)
  const { id } = await beta.environments.create({ name: 'mine' })
  await refused(others.environments.retrieve(id), 404, 'NotFoundError')
  await refused(others.environments.delete(id), 404, 'NotFoundError')
})
