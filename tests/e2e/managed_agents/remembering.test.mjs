// Sessions that have memory stores: what they begin with, what they write, and whose words it is.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TOOLSET, all, beta, made, of, others, refused, results, said, say, stop, turn } from './support.mjs'

const stores = beta.memoryStores
const note = (store, path, content) => stores.memories.create(store.id, { path, content })
const attach = (store, more = {}) => ({ type: 'memory_store', memory_store_id: store.id, ...more })
const own = async (method, path, body) => {
  const answer = await fetch(process.env.PONS_URL + path, {
    method, headers: { 'x-api-key': process.env.PONS_KEY, 'content-type': 'application/json' }, body: body && JSON.stringify(body),
  })
  return { status: answer.status, body: await answer.json() }
}

test('a session shows its memory stores as it was given them', async () => {
  const store = await stores.create({ name: 'Team Notes', description: 'what the team knows' })
  const second = await stores.create({ name: 'team notes' })
  const session = await made({ session: { resources: [attach(store, { instructions: 'Read it.' }), attach(second, { access: 'read_only' })] } })
  assert.deepEqual(session.resources[0], {
    type: 'memory_store', memory_store_id: store.id, access: 'read_write', instructions: 'Read it.', name: 'Team Notes',
    description: 'what the team knows', mount_path: '/mnt/memory/team-notes',
  })
  assert.equal(session.resources[1].mount_path, '/mnt/memory/team-notes-2')
  assert.equal(session.resources[1].access, 'read_only')
  assert.deepEqual((await beta.sessions.retrieve(session.id)).resources, session.resources)
  const found = await all(beta.sessions.list({ memory_store_id: second.id }))
  assert.deepEqual(found.map((each) => each.id), [session.id])
})

test('what is no store of the project is refused', async () => {
  const theirs = await others.memoryStores.create({ name: 'theirs' })
  await refused(made({ session: { resources: [attach(theirs)] } }), 404, 'NotFoundError')
  const store = await stores.create({ name: 'mine' })
  await refused(made({ session: { resources: [attach(store), attach(store)] } }), 400, 'BadRequestError', /second time/)
  await refused(made({ session: { resources: [attach(store, { access: 'all' })] } }), 400, 'BadRequestError', /access/)
  await refused(made({ session: { resources: [attach(store, { instructions: 'x'.repeat(5000) })] } }), 400, 'BadRequestError')
  const tool = { type: 'custom', name: 'memory_read', description: 'd', input_schema: { type: 'object' } }
  await refused(made({ agent: { tools: [tool] }, session: { resources: [attach(store)] } }), 400, 'BadRequestError', /memory_read/)
  await stores.archive(store.id)
  await refused(made({ session: { resources: [attach(store)] } }), 400, 'BadRequestError', /archived/)
})

test('a session writes a note, and the next one begins with it', async () => {
  const store = await stores.create({ name: 'notes' })
  const writer = await made({ session: { resources: [attach(store)] } })
  const heard = await turn(writer, [say('remember the colour')])
  assert.deepEqual(said(heard), ['Remembered.'])
  const used = of(heard, 'agent.tool_use')
  assert.deepEqual(used.map((each) => [each.name, each.evaluated_permission]), [['memory_write', 'allow'], ['memory_read', 'allow']])
  assert.match(results(heard)[0], /^Written: \d+ bytes/)
  assert.match(results(heard)[1], /provenance="agent"/)
  const [version] = await all(stores.memoryVersions.list(store.id, { view: 'full' }))
  assert.equal(version.content, 'the colour is zinnober')
  assert.deepEqual(version.created_by, { type: 'session_actor', session_id: writer.id })

  // The model knows without looking: its script speaks only when the words are in its system prompt.
  const reader = await made({ session: { resources: [attach(store, { access: 'read_only' })] } })
  const told = await turn(reader, [say('which colour')])
  assert.deepEqual(said(told), ['It is zinnober.'])
  const plain = await made()
  assert.deepEqual(said(await turn(plain, [say('which colour')])), ['I do not know.'])
})

test('a store that is read-only is not written', async () => {
  const store = await stores.create({ name: 'notes' })
  const session = await made({ session: { resources: [attach(store, { access: 'read_only' })] } })
  const heard = await turn(session, [say('remember the colour')])
  assert.match(results(heard)[0], /no tool of this name/)
  assert.deepEqual(await all(stores.memoryVersions.list(store.id)), [])
})

test('secrets are refused, and the note is not there', async () => {
  const store = await stores.create({ name: 'notes' })
  const session = await made({ session: { resources: [attach(store)] } })
  const heard = await turn(session, [say('remember the password')])
  const [result] = of(heard, 'agent.tool_result')
  assert.equal(result.is_error, true)
  assert.match(result.content[0].text, /MEMORY_TOKEN/)
  assert.deepEqual(await all(stores.memories.list(store.id)), [])
})

test('a person is asked where the agent has to ask before it writes', async () => {
  const store = await stores.create({ name: 'notes' })
  const toolset = { ...TOOLSET, configs: [{ name: 'write', permission_policy: { type: 'always_ask' } }] }
  const session = await made({ agent: { tools: [toolset] }, session: { resources: [attach(store)] } })
  const asked = await turn(session, [say('remember the colour')])
  assert.equal(stop(asked).type, 'requires_action')
  assert.deepEqual(await all(stores.memories.list(store.id)), [])
  const [call] = of(asked, 'agent.tool_use')
  assert.equal(call.evaluated_permission, 'ask')
  const denied = await turn(session, [{ type: 'user.tool_confirmation', tool_use_id: call.id, result: 'deny', deny_message: 'no' }])
  assert.match(results(denied)[0], /did not allow/)
  assert.deepEqual(await all(stores.memories.list(store.id)), [])
})

test('words from outside are found, say what they are, and are never put before a model unasked', async () => {
  const store = await stores.create({ name: 'notes' })
  // The machine of this session can reach the outside: what it says may be anybody's words.
  const session = await made({
    environment: { config: { type: 'cloud', networking: { type: 'limited', allowed_hosts: ['example.com'] } } },
    session: { resources: [attach(store)] },
  })
  await turn(session, [say('fetch and remember')])
  const [poisoned] = await all(stores.memories.list(store.id))
  assert.equal(poisoned.path, '/from-outside.md')
  const shown = await own('GET', `/x/memory/stores/${store.id}/notes/${poisoned.id}`)
  assert.equal(shown.body.provenance, 'untrusted')

  const next = await made({ session: { resources: [attach(store)] } })
  const heard = await turn(next, [say('which colour')])
  assert.deepEqual(said(heard), ['I do not know.'])
  const looked = await turn(next, [say('look it up')])
  assert.match(results(looked)[0], /provenance="untrusted"/)
  // Having read it, the session's own words are not trusted either.
  const [written] = await all(stores.memories.list(store.id, { path_prefix: '/after/' }))
  assert.equal((await own('GET', `/x/memory/stores/${store.id}/notes/${written.id}`)).body.provenance, 'untrusted')

  // A person who has read it may vouch for it.
  const marked = await own('POST', `/x/memory/stores/${store.id}/notes/${poisoned.id}/marks`, { provenance: 'human', pinned: true })
  assert.equal(marked.body.pinned, true)
  const trusting = await made({ session: { resources: [attach(store)] } })
  assert.deepEqual(said(await turn(trusting, [say('which colour')])), ['It is zinnober.'])
})

test('notes are searched across the stores of a project, and of no other', async () => {
  const store = await stores.create({ name: 'notes' })
  await note(store, '/walrus.md', 'the walrus eats clams')
  const hits = (await own('POST', '/x/memory/search', { query: 'walrus clams', stores: [store.id] })).body.hits
  assert.equal(hits.length, 1)
  assert.equal(hits[0].path, '/walrus.md')
  assert.equal(hits[0].provenance, 'human')
  assert.match(hits[0].snippet, /clams/)
  const theirs = await others.memoryStores.create({ name: 'theirs' })
  assert.equal((await own('POST', '/x/memory/search', { query: 'walrus', stores: [theirs.id] })).status, 404)
  assert.equal((await own('POST', '/x/memory/search', { query: 7 })).status, 400)
  assert.equal((await own('POST', `/x/memory/stores/${store.id}/notes/${hits[0].id}/marks`, { provenance: 'divine' })).status, 400)
})
