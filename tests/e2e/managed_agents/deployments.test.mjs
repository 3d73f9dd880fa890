// Deployments: sessions by schedule and by hand.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, beta, others, refused, said, say, TOOLSET } from './support.mjs'

async function deployed(more = {}) {
  const agent = await beta.agents.create({ name: 'worker', model: 'stage', tools: [TOOLSET] })
  const environment = await beta.environments.create({ name: 'plain', config: { type: 'cloud', networking: { type: 'limited' } } })
  return beta.deployments.create({ name: 'nightly', agent: agent.id, environment_id: environment.id, initial_events: [say('hello')], ...more })
}

const every_minute = { type: 'cron', expression: '* * * * *', timezone: 'Europe/Berlin' }

async function until(look, what) {
  for (let i = 0; i < 1200; i++) {
    const found = await look()
    if (found) return found
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  assert.fail(`it did not happen: ${what}`)
}

test('a deployment has every field, and its next times', async () => {
  const deployment = await deployed({ schedule: { type: 'cron', expression: '30 2 * * *', timezone: 'Europe/Berlin' } })
  assert.match(deployment.id, /^depl_/)
  assert.equal(deployment.status, 'active')
  assert.equal(deployment.agent.version, 1)
  assert.equal(deployment.schedule.upcoming_runs_at.length, 5)
  assert.equal(deployment.schedule.last_run_at, null)
  assert.deepEqual([deployment.paused_reason, deployment.archived_at, deployment.vault_ids], [null, null, []])
  const local = new Date(deployment.schedule.upcoming_runs_at[0]).toLocaleTimeString('en-GB', { timeZone: 'Europe/Berlin' })
  assert.equal(local, '02:30:00')
})

test('run by hand, it makes a session that answers', async () => {
  const deployment = await deployed()
  const run = await beta.deployments.run(deployment.id)
  assert.match(run.id, /^drun_/)
  assert.deepEqual(run.trigger_context, { type: 'manual' })
  assert.equal(run.error, null)
  const events = await until(async () => {
    const events = await all(beta.sessions.events.list(run.session_id))
    return events.at(-1)?.type === 'session.status_idle' && events
  }, 'the session answers')
  assert.deepEqual(said(events), ['Hello.'])
  assert.equal((await beta.sessions.retrieve(run.session_id)).deployment_id, deployment.id)
  assert.deepEqual((await all(beta.deploymentRuns.list({ deployment_id: deployment.id }))).map((each) => each.id), [run.id])
  assert.equal((await beta.deploymentRuns.retrieve(run.id)).session_id, run.session_id)
})

test('by schedule, each minute makes one session', async () => {
  const deployment = await deployed({ schedule: every_minute })
  const [run] = await until(async () => {
    const runs = await all(beta.deploymentRuns.list({ deployment_id: deployment.id }))
    return runs.length > 0 && runs
  }, 'a run by schedule')
  assert.equal(run.trigger_context.type, 'schedule')
  assert.equal(new Date(run.trigger_context.scheduled_at).getUTCSeconds(), 0)
  assert.match(run.session_id, /^sesn_/)
  const paused = await beta.deployments.pause(deployment.id)
  assert.equal(paused.status, 'paused')
  assert.deepEqual(paused.paused_reason, { type: 'manual' })
  const times = (await all(beta.deploymentRuns.list({ deployment_id: deployment.id }))).map((each) => each.trigger_context.scheduled_at)
  assert.equal(new Set(times).size, times.length)
})

test('it is changed, unpaused, listed and archived', async () => {
  const deployment = await deployed({ schedule: every_minute })
  await beta.deployments.pause(deployment.id)
  assert.equal((await beta.deployments.unpause(deployment.id)).status, 'active')
  const changed = await beta.deployments.update(deployment.id, { name: 'renamed', schedule: null })
  assert.deepEqual([changed.name, changed.schedule], ['renamed', null])
  assert.ok((await all(beta.deployments.list({ agent_id: deployment.agent.id }))).some((each) => each.id === deployment.id))
  assert.ok((await beta.deployments.archive(deployment.id)).archived_at)
  await refused(beta.deployments.run(deployment.id), 400)
})

test('what is wrong, or another project’s, is refused', async () => {
  const cron = (expression, timezone = 'UTC') => deployed({ schedule: { type: 'cron', expression, timezone } })
  await refused(cron('* * * *'), 400, 'BadRequestError')
  await refused(cron('61 * * * *'), 400, 'BadRequestError', /minute/)
  await refused(cron('@daily'), 400, 'BadRequestError')
  await refused(cron('0 0 31 2 *'), 400, 'BadRequestError')
  await refused(cron('0 0 * * *', 'Mars/Olympus'), 400, 'BadRequestError', /zone/)
  await refused(cron('0 0 * * *', '../../etc/passwd'), 400, 'BadRequestError')
  await refused(deployed({ initial_events: [] }), 400, 'BadRequestError')
  await refused(deployed({ agent: 'agent_none' }), 404)
  const { id } = await deployed()
  const run = await beta.deployments.run(id)
  await refused(others.deployments.retrieve(id), 404, 'NotFoundError')
  await refused(others.deployments.run(id), 404, 'NotFoundError')
  await refused(others.deploymentRuns.retrieve(run.id), 404, 'NotFoundError')
  await refused(beta.deployments.retrieve('depl_none'), 404, 'NotFoundError')
})

test('its sessions have its memory stores', async () => {
  const store = await beta.memoryStores.create({ name: 'nightly notes' })
  const attach = (more = {}) => [{ type: 'memory_store', memory_store_id: store.id, ...more }]
  const writer = await deployed({ resources: attach(), initial_events: [say('remember the colour')] })
  assert.deepEqual(writer.resources.map((each) => each.memory_store_id), [store.id])
  const answered = async (deployment) => {
    const run = await beta.deployments.run(deployment.id)
    assert.equal(run.error, null)
    const events = await until(async () => {
      const events = await all(beta.sessions.events.list(run.session_id))
      return events.at(-1)?.type === 'session.status_idle' && events
    }, 'the session answers')
    return { run, events }
  }
  const wrote = await answered(writer)
  assert.deepEqual(said(wrote.events), ['Remembered.'])
  const session = await beta.sessions.retrieve(wrote.run.session_id)
  assert.deepEqual(session.resources.map((each) => [each.memory_store_id, each.access]), [[store.id, 'read_write']])
  const [version] = await all(beta.memoryStores.memoryVersions.list(store.id, { view: 'full' }))
  assert.equal(version.content, 'the colour is zinnober')
  assert.deepEqual(version.created_by, { type: 'session_actor', session_id: session.id })

  // The next session knows it from its beginning, also one that may only read.
  const reader = await deployed({ resources: attach({ access: 'read_only' }), initial_events: [say('which colour')] })
  assert.deepEqual(said((await answered(reader)).events), ['It is zinnober.'])

  const theirs = await others.memoryStores.create({ name: 'theirs' })
  await refused(deployed({ resources: [{ type: 'memory_store', memory_store_id: theirs.id }] }), 404, 'NotFoundError')
  await refused(deployed({ resources: [...attach(), ...attach()] }), 400, 'BadRequestError', /second time/)
  await refused(deployed({ resources: attach({ access: 'all' }) }), 400, 'BadRequestError', /access/)

  // What is archived meanwhile is the run's error, and makes no session.
  await beta.memoryStores.archive(store.id)
  const late = await beta.deployments.run(reader.id)
  assert.equal(late.session_id, null)
  assert.equal(late.error.type, 'memory_store_archived_error')
})
