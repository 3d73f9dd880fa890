// Environments: networking and packages with every default, and what is refused.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, beta, others, refused } from './support.mjs'

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
  await refused(create({ packages: { pip: ['x; rm -rf /'] } }), 400, 'BadRequestError', /no name of a package/)
  await refused(create({ networking: { type: 'limited' }, packages: { pip: ['pandas'] } }), 400, 'BadRequestError', /allow_package_managers/)
  await refused(create({ networking: { type: 'open' } }), 400, 'BadRequestError', /networking\/type/)
  const { id } = await beta.environments.create({ name: 'mine' })
  await refused(others.environments.retrieve(id), 404, 'NotFoundError')
  await refused(others.environments.delete(id), 404, 'NotFoundError')
})
