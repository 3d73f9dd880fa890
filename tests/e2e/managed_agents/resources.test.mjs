// Resources of sessions: files in the machine, stores of notes by name; every method, and what is refused.
import { toFile } from '@anthropic-ai/sdk'
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { all, beta, made, others, refused, results, say, TOOLSET, turn } from './support.mjs'

const upload = async (bytes, name = 'data.csv', whose = beta) => whose.files.upload({ file: await toFile(Buffer.from(bytes), name, { type: 'text/csv' }) })
const PATH = '/data/deep/er/data.bin'

test('files are in the machine, also those that come later, and go again', async () => {
  const first = await upload('one\n')
  const second = await upload('two\n')
  const session = await made({ session: { resources: [{ type: 'file', file_id: first.id }] } })
  assert.equal(session.resources.length, 1)
  const [resource] = session.resources
  assert.match(resource.id, /^sesrsc_/)
  assert.equal(resource.mount_path, `/mnt/session/uploads/${first.id}`)
  assert.deepEqual([resource.type, resource.file_id, resource.created_at], ['file', first.id, resource.updated_at])
  assert.ok(Date.parse(resource.created_at))
  assert.match(results(await turn(session, [say('show uploads')]))[0], /one/)

  const added = await beta.sessions.resources.add(session.id, { type: 'file', file_id: second.id, mount_path: '/mnt/session/uploads/two.csv' })
  assert.equal(added.mount_path, '/mnt/session/uploads/two.csv')
  assert.deepEqual((await all(beta.sessions.resources.list(session.id))).map((each) => each.id), [resource.id, added.id])
  assert.deepEqual((await all(beta.sessions.resources.list(session.id, { limit: 1 }))).map((each) => each.id), [resource.id, added.id])
  const found = await beta.sessions.resources.retrieve(added.id, { session_id: session.id })
  assert.deepEqual({ ...found }, { ...added })
  assert.deepEqual((await beta.sessions.retrieve(session.id)).resources.map((each) => each.id), [resource.id, added.id])
  assert.match(results(await turn(session, [say('show uploads again')]))[0], /two/)

  const removed = await beta.sessions.resources.delete(added.id, { session_id: session.id })
  assert.deepEqual([removed.id, removed.type], [added.id, 'session_resource_deleted'])
  const left = results(await turn(session, [say('show uploads at last')]))[0]
  assert.ok(/one/.test(left) && !/two/.test(left), left)
  await refused(beta.sessions.resources.delete(added.id, { session_id: session.id }), 404, 'NotFoundError')
})

test('a file is there to its last byte', async () => {
  const bytes = randomBytes(3_000_001)
  const file = await upload(bytes, 'data.bin')
  const session = await made({ session: { resources: [{ type: 'file', file_id: file.id, mount_path: PATH }] } })
  assert.match(results(await turn(session, [say('hash the data')]))[0], new RegExp(createHash('sha256').update(bytes).digest('hex')))
})

test('agents of agents find it, too', async () => {
  const bytes = randomBytes(1_000)
  const file = await upload(bytes, 'data.bin')
  const helper = await beta.agents.create({ name: 'helper', model: 'stage', tools: [TOOLSET] })
  const agent = { multiagent: { type: 'coordinator', agents: [helper.id] } }
  const session = await made({ agent, session: { resources: [{ type: 'file', file_id: file.id, mount_path: PATH }] } })
  await turn(session, [say('share the data')])
  const [thread] = (await all(beta.sessions.threads.list(session.id))).filter((each) => each.parent_thread_id)
  const events = await all(beta.sessions.threads.events.list(thread.id, { session_id: session.id }))
  assert.match(results(events)[0], new RegExp(createHash('sha256').update(bytes).digest('hex')))
})

test('stores of notes are resources with a place and no id', async () => {
  const store = await beta.memoryStores.create({ name: 'Team notes', description: 'what we know' })
  const file = await upload('x')
  const session = await made({
    session: { resources: [{ type: 'memory_store', memory_store_id: store.id, instructions: 'look first' }, { type: 'file', file_id: file.id }] },
  })
  const shown = { type: 'memory_store', memory_store_id: store.id, access: 'read_write', instructions: 'look first', name: 'Team notes', description: 'what we know', mount_path: '/mnt/memory/team-notes' }
  assert.deepEqual(session.resources[0], shown)
  assert.deepEqual((await all(beta.sessions.resources.list(session.id)))[0], shown)
})

test('sessions of deployments have files of their own', async () => {
  const bytes = randomBytes(1_000)
  const file = await upload(bytes, 'data.bin')
  const agent = await beta.agents.create({ name: 'worker', model: 'stage', tools: [TOOLSET] })
  const environment = await beta.environments.create({ name: 'plain', config: { type: 'cloud', networking: { type: 'limited' } } })
  const resource = { type: 'file', file_id: file.id, mount_path: PATH }
  const deployment = await beta.deployments.create({ name: 'd', agent: agent.id, environment_id: environment.id, initial_events: [say('hash the data')], resources: [resource] })
  assert.deepEqual(deployment.resources, [resource])
  const run = await beta.deployments.run(deployment.id)
  const session = await beta.sessions.retrieve(run.session_id)
  assert.match(session.resources[0].id, /^sesrsc_/)
  let events = []
  for (let i = 0; i < 600 && events.at(-1)?.type !== 'session.status_idle'; i++) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    events = await all(beta.sessions.events.list(run.session_id))
  }
  assert.match(results(events)[0], new RegExp(createHash('sha256').update(bytes).digest('hex')))
  await beta.files.delete(file.id)
  const late = await beta.deployments.run(deployment.id)
  assert.equal(late.error.type, 'file_not_found_error')
  const cleared = await beta.deployments.update(deployment.id, { resources: null })
  assert.deepEqual(cleared.resources, [])
})

test('what would end elsewhere, or is too much, is refused', async () => {
  const file = await upload('x')
  const session = await made()
  const create = (resource) => made({ session: { resources: [resource] } })
  for (const mount_path of ['data.csv', '../data.csv', '/a/../b', '/a/./b', '/..', '/a//b', '/a/', '/', '/proc/1/mem', '/sys/x', '/dev/null', '/var/lib/pons/x', `/${'a'.repeat(2000)}`, '/a\nb']) {
    await refused(create({ type: 'file', file_id: file.id, mount_path }), 400, 'BadRequestError', /mount_path/)
    await refused(beta.sessions.resources.add(session.id, { type: 'file', file_id: file.id, mount_path }), 400, 'BadRequestError', /mount_path/)
  }
  const twice = ['/x/y', '/x/y'].map((mount_path) => ({ type: 'file', file_id: file.id, mount_path }))
  await refused(made({ session: { resources: twice } }), 400, 'BadRequestError', /\/x\/y/)
  const many = Array.from({ length: 501 }, (_, i) => ({ type: 'file', file_id: file.id, mount_path: `/x/${i}` }))
  await refused(made({ session: { resources: many } }), 400, 'BadRequestError', /resources/)
  await refused(create({ type: 'file', file_id: 'f'.repeat(1000) }), 400, 'BadRequestError', /file_id/)
  await refused(made({ environment: { config: { type: 'self_hosted' } }, session: { resources: [twice[0]] } }), 400, 'BadRequestError', /self_hosted/)
  await beta.sessions.resources.add(session.id, twice[0])
  await refused(beta.sessions.resources.add(session.id, twice[1]), 409, 'ConflictError', /mount_path/)
  await beta.sessions.archive(session.id)
  await refused(beta.sessions.resources.add(session.id, { type: 'file', file_id: file.id }), 400, 'BadRequestError', /archived/)
})

test('what is not there, or another project’s, is not found', async () => {
  const file = await upload('x')
  const theirs = await upload('y', 'data.csv', others)
  const session = await made({ session: { resources: [{ type: 'file', file_id: file.id }] } })
  const { resources } = beta.sessions
  const [{ id }] = session.resources
  for (const file_id of ['file_none', theirs.id]) {
    await refused(made({ session: { resources: [{ type: 'file', file_id }] } }), 404, 'NotFoundError')
    await refused(resources.add(session.id, { type: 'file', file_id }), 404, 'NotFoundError')
  }
  await refused(resources.list('sesn_none'), 404, 'NotFoundError')
  await refused(resources.retrieve('sesrsc_none', { session_id: session.id }), 404, 'NotFoundError')
  await refused(resources.update('sesrsc_none', { session_id: session.id, authorization_token: 'x' }), 404, 'NotFoundError')
  const strangers = others.sessions.resources
  await refused(strangers.list(session.id), 404, 'NotFoundError')
  await refused(strangers.retrieve(id, { session_id: session.id }), 404, 'NotFoundError')
  await refused(strangers.add(session.id, { type: 'file', file_id: theirs.id }), 404, 'NotFoundError')
  await refused(strangers.update(id, { session_id: session.id, authorization_token: 'x' }), 404, 'NotFoundError')
  await refused(strangers.delete(id, { session_id: session.id }), 404, 'NotFoundError')
  assert.equal((await all(resources.list(session.id))).length, 1)
})

test('kinds that cannot be are refused by name', async () => {
  const session = await made()
  const repository = { type: 'github_repository', url: 'https://github.com/a/b' }
  const with_token = { ...repository, authorization_token: 'ghp_never_shown' }
  const error = await refused(made({ session: { resources: [with_token] } }), 400, 'BadRequestError', /authorization_token: tokens are kept in vaults/)
  assert.ok(!error.message.includes('ghp_never_shown'))
  await refused(made({ session: { resources: [{ ...repository, url: 'https://gitlab.com/a/b' }] } }), 400, 'BadRequestError', /url/)
  await refused(beta.sessions.resources.add(session.id, repository), 400, 'BadRequestError', /when a session is made/)
  const store = await beta.memoryStores.create({ name: 'notes' })
  await refused(beta.sessions.resources.add(session.id, { type: 'memory_store', memory_store_id: store.id }), 400, 'BadRequestError', /when a session is made/)
  await refused(made({ session: { resources: [{ type: 'telepathy' }] } }), 400, 'BadRequestError', /type/)
  await refused(beta.sessions.resources.add(session.id, { type: 'file' }), 400, 'BadRequestError', /file_id/)
  const file = await upload('x')
  const added = await beta.sessions.resources.add(session.id, { type: 'file', file_id: file.id })
  await refused(beta.sessions.resources.update(added.id, { session_id: session.id, authorization_token: 'x' }), 400, 'BadRequestError', /github_repository/)
})

test('a repository that cannot be had is said to be', async () => {
  const repository = { type: 'github_repository', url: 'https://github.com/a/b', checkout: { type: 'branch', name: 'main' } }
  const session = await made({ session: { resources: [repository] } })
  const [resource] = session.resources
  assert.match(resource.id, /^sesrsc_/)
  assert.equal(resource.mount_path, '/workspace/b')
  assert.deepEqual(resource.checkout, { type: 'branch', name: 'main' })
  const place = { session_id: session.id }
  await refused(beta.sessions.resources.update(resource.id, { ...place, authorization_token: 'x' }), 400, 'BadRequestError', /vaults/)
  assert.match(results(await turn(session, [say('look around')]))[0], /https:\/\/github.com\/a\/b cannot be put at \/workspace\/b/)
  await beta.sessions.resources.delete(resource.id, place)
  await turn(session, [say('look around once more')])
})
