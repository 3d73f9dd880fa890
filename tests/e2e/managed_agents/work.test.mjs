// Work of self_hosted environments: the SDK's own worker runs the tools of a session.
import { EnvironmentWorker } from '@anthropic-ai/sdk/helpers/beta/environments'
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { all, Anthropic, beta, client, made, of, others, refused, said, say, stop, turn } from './support.mjs'

const selfHosted = () => beta.environments.create({ name: 'mine', config: { type: 'self_hosted' } })
const inside = (environment) => made({ environment: { name: environment.name, config: { type: 'self_hosted' } } })
const tokenOf = (work) => JSON.parse(Buffer.from(work.secret, 'base64url')).sessions_token
const as = (apiKey) => new Anthropic({ baseURL: process.env.PONS_URL, apiKey, maxRetries: 0 }).beta

test('the SDK’s worker takes the work, runs the tools, and ends', { timeout: 120_000 }, async () => {
  const session = await inside({ name: 'mine' })
  const workdir = mkdtempSync(join(tmpdir(), 'worker-'))
  const ending = new AbortController()
  const worker = new EnvironmentWorker({
    client, environmentId: session.environment_id, environmentKey: process.env.PONS_KEY, workdir, maxIdleMs: 500, workerId: 'one',
  })
  const running = worker.run(ending.signal)
  const stream = await beta.sessions.events.stream(session.id)
  await beta.sessions.events.send(session.id, { events: [say('write a note')] })
  const heard = []
  for await (const event of stream) {
    heard.push(event)
    if (event.type === 'session.status_idle' && event.stop_reason.type === 'end_turn') break
  }
  assert.deepEqual(said(heard), ['The note is written.'])
  const answers = of(heard, 'user.tool_result').map((event) => event.content[0].text)
  assert.equal(answers.length, 2)
  assert.match(answers[1], /from the worker/)
  // It says that it is done when the session has been idle for a while.
  let work
  for (;;) {
    [work] = await all(beta.environments.work.list(session.environment_id))
    if (work.state === 'stopped') break
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  assert.deepEqual(work.data, { type: 'session', id: session.id })
  assert.ok(work.acknowledged_at && work.started_at && work.latest_heartbeat_at && work.stopped_at)
  assert.equal(work.secret, null)
  const stats = await beta.environments.work.stats(session.environment_id)
  assert.deepEqual([stats.depth, stats.pending, stats.oldest_queued_at, stats.workers_polling], [0, 0, null, 1])
  ending.abort()
  await running
  rmSync(workdir, { recursive: true })
})

test('work is offered, taken, reported on and stopped, step by step', async () => {
  const session = await inside({ name: 'mine' })
  const env = session.environment_id
  const api = beta.environments.work
  assert.equal(await api.poll(env), null)
  const asked = await turn(session, [say('look around')])
  assert.equal(stop(asked).type, 'requires_action')
  const stats = await api.stats(env)
  assert.deepEqual([stats.depth, stats.pending], [1, 0])
  const work = await api.poll(env, { block_ms: 900 })
  assert.deepEqual([work.data.id, work.state, work.acknowledged_at], [session.id, 'queued', null])
  assert.equal(await api.poll(env), null, 'it is not offered twice at once')
  const again = await api.poll(env, { reclaim_older_than_ms: 1 })
  assert.equal(again.id, work.id, 'nobody said that they take it')

  const token = as(tokenOf(work))
  const in_ = { environment_id: env }
  await refused(api.heartbeat(work.id, in_), 409, 'ConflictError')
  assert.equal((await api.ack(work.id, in_)).state, 'starting')
  assert.equal((await api.ack(work.id, in_)).state, 'starting', 'said again')
  const first = await token.environments.work.heartbeat(work.id, { ...in_, expected_last_heartbeat: 'NO_HEARTBEAT', desired_ttl_seconds: 60 })
  assert.deepEqual([first.lease_extended, first.state, first.ttl_seconds], [true, 'active', 60])
  const error = await refused(token.environments.work.heartbeat(work.id, { ...in_, expected_last_heartbeat: 'NO_HEARTBEAT' }), 412)
  assert.equal(error.errorCode, 'heartbeat_precondition_failed')
  assert.deepEqual(error.error.error.details.current_state,
    { last_heartbeat: first.last_heartbeat, lease_extended: false, state: 'active', ttl_seconds: 60 })
  const second = await token.environments.work.heartbeat(work.id, { ...in_, expected_last_heartbeat: first.last_heartbeat })
  assert.notEqual(second.last_heartbeat, first.last_heartbeat)
  assert.deepEqual((await api.update(work.id, { ...in_, metadata: { host: 'h1' } })).metadata, { host: 'h1' })
  assert.equal((await api.retrieve(work.id, in_)).metadata.host, 'h1')

  // The token is for this session, and for nothing else.
  assert.equal((await token.sessions.retrieve(session.id)).id, session.id)
  assert.ok((await all(token.sessions.events.list(session.id))).length > 0)
  const another = await made()
  for (const call of [
    () => token.sessions.retrieve(another.id),
    () => token.sessions.list(),
    () => token.sessions.update(session.id, { title: 'x' }),
    () => token.sessions.delete(session.id),
    () => token.sessions.events.send(another.id, { events: [say('hello')] }),
    () => token.agents.list(),
    () => token.environments.work.poll(env),
    () => token.environments.retrieve(env),
    () => token.memoryStores.list(),
  ]) {
    const status = await call().then(() => 200, (failure) => failure.status)
    assert.ok(status === 401 || status === 403, `${call}: ${status}`)
  }
  const outside = await fetch(`${process.env.PONS_URL}/x/sessions`, { headers: { authorization: `Bearer ${tokenOf(work)}` } })
  assert.equal(outside.status, 403)

  const asks = await api.stop(work.id, in_)
  assert.equal(asks.state, 'stopping')
  assert.equal((await token.environments.work.heartbeat(work.id, in_)).lease_extended, false)
  assert.equal((await token.environments.work.stop(work.id, { ...in_, force: true })).state, 'stopped')
  await refused(token.sessions.retrieve(session.id), 401, 'AuthenticationError')
  // The session still waits: there is work again.
  const next = await api.poll(env, { block_ms: 900 })
  assert.notEqual(next.id, work.id)
  assert.equal(next.data.id, session.id)
  assert.equal((await all(api.list(env, { limit: 1 }))).length, 2)
})

test('a worker’s token opens the notes that its session has, as the session has them', async () => {
  const stores = beta.memoryStores
  const [written, read, another] = await Promise.all(['written', 'read', 'another'].map((name) => stores.create({ name })))
  await stores.memories.create(read.id, { path: '/colour.md', content: 'zinnober' })
  const session = await made({
    environment: { name: 'mine', config: { type: 'self_hosted' } },
    session: { resources: [
      { type: 'memory_store', memory_store_id: written.id },
      { type: 'memory_store', memory_store_id: read.id, access: 'read_only' },
    ] },
  })
  await turn(session, [say('look around')])
  const token = as(tokenOf(await beta.environments.work.poll(session.environment_id, { block_ms: 900 }))).memoryStores
  const [note] = await all(token.memories.list(read.id, { view: 'full' }))
  assert.equal(note.content, 'zinnober')
  assert.equal((await token.memories.retrieve(note.id, { memory_store_id: read.id })).path, '/colour.md')
  const made_ = await token.memories.create(written.id, { path: '/found.md', content: 'clams' })
  await token.memories.update(made_.id, { memory_store_id: written.id, content: 'many clams' })
  const [version] = await all(stores.memoryVersions.list(written.id))
  assert.deepEqual(version.created_by, { type: 'session_actor', session_id: session.id })
  assert.equal((await stores.memoryVersions.retrieve(version.id, { memory_store_id: written.id })).id, version.id)
  await token.memories.delete(made_.id, { memory_store_id: written.id })
  for (const call of [
    () => token.memories.create(read.id, { path: '/x.md', content: 'x' }),
    () => token.memories.update(note.id, { memory_store_id: read.id, content: 'x' }),
    () => token.memories.delete(note.id, { memory_store_id: read.id }),
    () => token.memories.list(another.id),
    () => token.memories.create(another.id, { path: '/x.md', content: 'x' }),
    () => token.retrieve(written.id),
    () => token.update(written.id, { name: 'x' }),
    () => token.memoryVersions.list(written.id),
  ]) await refused(call(), 403, 'PermissionDeniedError')
})

test('work that nobody has taken ends with what its session waited for', async () => {
  const session = await inside({ name: 'mine' })
  const api = beta.environments.work
  await turn(session, [say('look around')])
  assert.equal((await api.stats(session.environment_id)).depth, 1)
  await turn(session, [{ type: 'user.interrupt' }])
  assert.equal((await api.stats(session.environment_id)).depth, 0)
  assert.equal(await api.poll(session.environment_id), null, 'nobody is sent to a session that rests')
  const [work] = await all(api.list(session.environment_id))
  assert.equal(work.state, 'stopped')
  await refused(api.ack(work.id, { environment_id: session.environment_id }), 409, 'ConflictError')
})

test('work of others, and of environments that have none, is refused', async () => {
  const session = await made()
  await refused(beta.environments.work.poll(session.environment_id), 400, 'BadRequestError', /self_hosted/)
  const environment = await selfHosted()
  await refused(others.environments.work.poll(environment.id), 404, 'NotFoundError')
  await refused(others.environments.work.stats(environment.id), 404, 'NotFoundError')
  await refused(beta.environments.work.retrieve('work_none', { environment_id: environment.id }), 404, 'NotFoundError')
  await refused(beta.environments.work.ack('work_none', { environment_id: environment.id }), 404, 'NotFoundError')
})
