// A session works with a credential that neither it nor the brain ever has.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { all, beta, made, others, refused, results, say, TOOLSET, turn } from './support.mjs'

const SECRET = process.env.PONS_SECRET_VALUE
const HASH = createHash('sha256').update(SECRET).digest('hex')
const HOST = 'seen.example.net'
const environment = { config: { type: 'cloud', networking: { type: 'limited', allowed_hosts: [HOST, 'plain.example.net'] } } }

async function keep(location) {
  const vault = await beta.vaults.create({ display_name: 'ours' })
  const credential = await beta.vaults.credentials.create(vault.id, {
    auth: { type: 'environment_variable', secret_name: 'SEEN_TOKEN', secret_value: SECRET, networking: { type: 'limited', allowed_hosts: [HOST] }, injection_location: location },
  })
  return { vault, credential }
}
const session_with = (vault) => made({ environment, session: { vault_ids: [vault.id] } })

test('a stub is in the machine, the value goes to its host and nowhere else', async () => {
  const { vault } = await keep()
  const session = await session_with(vault)
  assert.deepEqual(session.vault_ids, [vault.id])
  assert.deepEqual((await beta.sessions.retrieve(session.id)).vault_ids, [vault.id])
  const heard = await turn(session, [say('use the credential')])
  const [stub, hash, header, basic, body, elsewhere] = results(heard)
  assert.ok(!JSON.stringify(heard).includes(SECRET))
  assert.match(stub, /\S{16,}/)
  assert.match(hash, new RegExp(`^[0-9a-f]{64}[^]*\n${SECRET.length} characters`), 'as long as the value')
  assert.ok(!hash.includes(HASH), 'and not the value')
  assert.match(header, /x-own[^]*\n200\n\[exit code 0[^\n]*$/i, 'any header carries it')
  assert.match(basic, /basic[^]*\n200\n\[exit code 0[^\n]*$/i)
  assert.match(body, /credential|undeclared/i, 'a body does not, unless it was said')
  assert.match(elsewhere, /\n200\n\[exit code 0[^\n]*$/, 'what stands for it is worth nothing there')
})

test('in bodies it is swapped where that was said', async () => {
  const { vault } = await keep({ header: true, body: true })
  const heard = await turn(await session_with(vault), [say('post the credential')])
  assert.ok(!JSON.stringify(heard).includes(SECRET))
  assert.match(results(heard)[0], /\n200\n\[exit code 0[^\n]*$/)
})

test('one that was archived is gone from machines at once', async () => {
  const { vault, credential } = await keep()
  const session = await session_with(vault)
  await turn(session, [say('call once')])
  await beta.vaults.credentials.archive(credential.id, { vault_id: vault.id })
  const heard = await turn(session, [say('call again')])
  assert.ok(!JSON.stringify(heard).includes(SECRET))
  await beta.vaults.archive(vault.id)
  await refused(session_with(vault), 400, 'BadRequestError', /archived/)
})

test('a session without the vault has nothing of it', async () => {
  await keep()
  const heard = await turn(await made({ environment }), [say('use the credential')])
  assert.equal(results(heard)[0].trim().split('\n')[0], 'none')
})

test('sessions of deployments have their vaults', async () => {
  const { vault } = await keep()
  const agent = await beta.agents.create({ name: 'worker', model: 'stage', tools: [TOOLSET] })
  const place = await beta.environments.create({ name: 'plain', ...environment })
  const wish = { name: 'nightly', agent: agent.id, environment_id: place.id, initial_events: [say('look at it')] }
  const deployment = await beta.deployments.create({ ...wish, vault_ids: [vault.id] })
  assert.deepEqual(deployment.vault_ids, [vault.id])
  const run = await beta.deployments.run(deployment.id)
  assert.equal(run.error, null)
  assert.deepEqual((await beta.sessions.retrieve(run.session_id)).vault_ids, [vault.id])
  let events = []
  for (let i = 0; i < 600 && events.at(-1)?.type !== 'session.status_idle'; i++) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    events = await all(beta.sessions.events.list(run.session_id))
  }
  const empty = createHash('sha256').update('').digest('hex')
  const [hash] = results(events)
  assert.match(hash, /^[0-9a-f]{64}/)
  assert.ok(!hash.includes(HASH) && !hash.includes(empty), 'a stub is there')
  await beta.vaults.archive(vault.id)
  const late = await beta.deployments.run(deployment.id)
  assert.equal(late.session_id, null)
  assert.equal(late.error.type, 'vault_archived_error')
  await refused(beta.deployments.create({ ...wish, vault_ids: ['vlt_none'] }), 404, 'NotFoundError')
})

test('vaults of another project are not there', async () => {
  const { vault } = await keep()
  const agent = await others.agents.create({ name: 'a', model: 'stage' })
  const place = await others.environments.create({ name: 'e' })
  const wish = { agent: agent.id, environment_id: place.id, vault_ids: [vault.id] }
  await refused(others.sessions.create(wish), 404, 'NotFoundError')
  await refused(others.deployments.create({ ...wish, name: 'd', initial_events: [say('look at it')] }), 404, 'NotFoundError')
  await refused(made({ session: { vault_ids: ['vlt_none'] } }), 404, 'NotFoundError')
  await refused(made({ session: { vault_ids: [vault.id, vault.id] } }), 400, 'BadRequestError', /twice/)
  await refused(made({ session: { vault_ids: Array.from({ length: 51 }, (_, i) => `vlt_${i}`) } }), 400, 'BadRequestError', /vault_ids/)
  const session = await session_with(vault)
  await refused(beta.sessions.update(session.id, { vault_ids: [] }), 400, 'BadRequestError', /vault_ids/)
})
