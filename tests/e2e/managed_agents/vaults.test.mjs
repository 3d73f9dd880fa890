// Vaults and credentials: every method, what is refused, and that no secret ever comes back.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { all, beta, others, refused } from './support.mjs'

const SECRET = process.env.PONS_SECRET_VALUE
const AFTER = [...SECRET].reverse().join('')
const vault = (more = {}) => beta.vaults.create({ display_name: 'ours', ...more })
const variable = (more = {}) => ({
  type: 'environment_variable',
  secret_name: 'SEEN_TOKEN',
  secret_value: SECRET,
  networking: { type: 'limited', allowed_hosts: ['seen.example.net'] },
  ...more,
})
const without_secrets = (object) => assert.ok(![SECRET, AFTER].some((value) => JSON.stringify(object).includes(value)), 'a secret came back')

test('a vault has every field; it is changed, listed, archived and deleted', async () => {
  const made = await vault({ metadata: { team: 'a', drop: 'b' } })
  assert.match(made.id, /^vlt_/)
  assert.equal(made.type, 'vault')
  assert.deepEqual([made.display_name, made.metadata, made.archived_at], ['ours', { team: 'a', drop: 'b' }, null])
  const changed = await beta.vaults.update(made.id, { display_name: 'theirs', metadata: { drop: null } })
  assert.deepEqual([changed.display_name, changed.metadata], ['theirs', { team: 'a' }])
  assert.equal((await beta.vaults.retrieve(made.id)).display_name, 'theirs')
  const second = await vault()
  const pages = (await all(beta.vaults.list({ limit: 1 }))).map((each) => each.id)
  assert.ok(pages.indexOf(second.id) >= 0 && pages.indexOf(made.id) >= 0)
  assert.ok((await beta.vaults.archive(made.id)).archived_at)
  assert.ok((await beta.vaults.archive(made.id)).archived_at, 'again is the same')
  assert.ok(!(await all(beta.vaults.list())).some((each) => each.id === made.id))
  assert.ok((await all(beta.vaults.list({ include_archived: true }))).some((each) => each.id === made.id))
  await refused(beta.vaults.update(made.id, { display_name: 'x' }), 400, 'BadRequestError', /archived/)
  assert.equal((await beta.vaults.delete(made.id)).type, 'vault_deleted')
  await refused(beta.vaults.retrieve(made.id), 404, 'NotFoundError')
  await refused(vault({ display_name: '' }), 400, 'BadRequestError', /display_name/)
  await refused(vault({ nonsense: 1 }), 400, 'BadRequestError', /nonsense/)
})

test('a variable is kept, changed, rotated and archived, and its value never shown', async () => {
  const { id } = await vault()
  const made = await beta.vaults.credentials.create(id, { auth: variable(), display_name: 'seen' })
  without_secrets(made)
  assert.match(made.id, /^vcrd_/)
  assert.equal(made.vault_id, id)
  assert.deepEqual(made.auth, {
    type: 'environment_variable',
    secret_name: 'SEEN_TOKEN',
    networking: { type: 'limited', allowed_hosts: ['seen.example.net'] },
    injection_location: { header: true, body: false },
  })
  const place = { vault_id: id }
  const changed = await beta.vaults.credentials.update(made.id, {
    ...place,
    auth: { type: 'environment_variable', injection_location: { body: true } },
    display_name: null,
  })
  assert.deepEqual(changed.auth.injection_location, { header: true, body: true })
  assert.equal(changed.display_name, null)
  without_secrets(await beta.vaults.credentials.update(made.id, { ...place, auth: { type: 'environment_variable', secret_value: AFTER } }))
  without_secrets(await beta.vaults.credentials.retrieve(made.id, place))
  without_secrets(await all(beta.vaults.credentials.list(id)))
  await refused(beta.vaults.credentials.create(id, { auth: variable() }), 409, 'ConflictError', /same variable/)
  assert.ok((await beta.vaults.credentials.archive(made.id, place)).archived_at)
  assert.deepEqual(await all(beta.vaults.credentials.list(id)), [])
  await refused(beta.vaults.credentials.update(made.id, { ...place, display_name: 'x' }), 400, 'BadRequestError', /archived/)
  const again = await beta.vaults.credentials.create(id, { auth: variable() })
  assert.equal((await beta.vaults.credentials.delete(again.id, place)).type, 'vault_credential_deleted')
  await refused(beta.vaults.credentials.retrieve(again.id, place), 404, 'NotFoundError')
})

test('tokens of MCP servers are kept, and asked about', async () => {
  const { id } = await vault()
  const url = 'https://nowhere.example.net/mcp'
  const bearer = await beta.vaults.credentials.create(id, { auth: { type: 'static_bearer', token: SECRET, mcp_server_url: url } })
  assert.deepEqual(bearer.auth, { type: 'static_bearer', mcp_server_url: url })
  await refused(beta.vaults.credentials.create(id, { auth: { type: 'static_bearer', token: SECRET, mcp_server_url: `${url}/` } }), 409, 'ConflictError')
  await refused(beta.vaults.credentials.mcpOAuthValidate(bearer.id, { vault_id: id }), 400, 'BadRequestError', /mcp_oauth/)
  const oauth = await beta.vaults.credentials.create(id, {
    auth: {
      type: 'mcp_oauth',
      access_token: SECRET,
      mcp_server_url: 'https://seen.example.net/echo',
      expires_at: '2030-01-01T00:00:00Z',
      refresh: { client_id: 'me', refresh_token: `${SECRET}r`, token_endpoint: 'https://seen.example.net/token', token_endpoint_auth: { type: 'client_secret_post', client_secret: `${SECRET}c` } },
    },
  })
  without_secrets(oauth)
  assert.equal(oauth.auth.expires_at, '2030-01-01T00:00:00Z')
  assert.deepEqual(oauth.auth.refresh, { client_id: 'me', token_endpoint: 'https://seen.example.net/token', token_endpoint_auth: { type: 'client_secret_post' } })
  const said = await beta.vaults.credentials.mcpOAuthValidate(oauth.id, { vault_id: id })
  without_secrets(said)
  assert.equal(said.type, 'vault_credential_validation')
  assert.equal(said.status, 'valid', JSON.stringify(said))
  assert.equal(said.mcp_probe, null, 'nothing failed')
  assert.equal(said.has_refresh_token, true)
  const silent = await beta.vaults.credentials.create(id, { auth: { type: 'mcp_oauth', access_token: SECRET, mcp_server_url: 'https://nowhere.example.net/other' } })
  const unknown = await beta.vaults.credentials.mcpOAuthValidate(silent.id, { vault_id: id })
  assert.deepEqual(unknown.mcp_probe, { method: 'initialize', http_response: null })
  assert.deepEqual([unknown.status, unknown.has_refresh_token], ['unknown', false])
})

test('what could not be kept safe is refused, and the refusal does not repeat it', async () => {
  const { id } = await vault()
  const create = (auth) => beta.vaults.credentials.create(id, { auth })
  for (const [auth, says] of [
    [variable({ secret_value: 'hunter2' }), /./],
    [variable({ secret_value: 7 }), /text/],
    [variable({ secret_name: 'lower case' }), /environment variable/],
    [variable({ networking: { type: 'unrestricted' } }), /limited/],
    [variable({ networking: { type: 'limited', allowed_hosts: [] } }), /1 to 16/],
    [variable({ networking: { type: 'limited', allowed_hosts: ['10.0.0.1'] } }), /IP address/],
    [variable({ networking: { type: 'limited', allowed_hosts: ['*.com'] } }), /strangers|label/],
    [variable({ networking: { type: 'limited', allowed_hosts: ['https://a.example.net/x'] } }), /host/],
    [variable({ injection_location: { header: false, body: false } }), /headers/],
    [{ type: 'static_bearer', token: SECRET, mcp_server_url: 'http://a.example.net' }, /https/],
    [{ type: 'static_bearer', mcp_server_url: 'https://a.example.net' }, /token/],
    [{ type: 'telepathy' }, /type/],
  ]) {
    const error = await refused(create(auth), 400, 'BadRequestError', says)
    assert.ok(!error.message.includes('hunter2') && !error.message.includes(SECRET))
  }
  const made = await create(variable())
  await refused(beta.vaults.credentials.update(made.id, { vault_id: id, auth: { type: 'static_bearer', token: SECRET } }), 400, 'BadRequestError', /stays/)
})

test('vaults of another project are not there', async () => {
  const { id } = await vault()
  const made = await beta.vaults.credentials.create(id, { auth: variable() })
  const place = { vault_id: id }
  await refused(others.vaults.retrieve(id), 404, 'NotFoundError')
  await refused(others.vaults.update(id, { display_name: 'x' }), 404, 'NotFoundError')
  await refused(others.vaults.archive(id), 404, 'NotFoundError')
  await refused(others.vaults.delete(id), 404, 'NotFoundError')
  await refused(others.vaults.credentials.list(id), 404, 'NotFoundError')
  await refused(others.vaults.credentials.create(id, { auth: variable({ secret_name: 'X' }) }), 404, 'NotFoundError')
  await refused(others.vaults.credentials.retrieve(made.id, place), 404, 'NotFoundError')
  await refused(others.vaults.credentials.delete(made.id, place), 404, 'NotFoundError')
  await refused(others.vaults.credentials.mcpOAuthValidate(made.id, place), 404, 'NotFoundError')
  assert.ok(!(await all(others.vaults.list({ include_archived: true }))).some((each) => each.id === id))
  assert.equal((await beta.vaults.credentials.retrieve(made.id, place)).archived_at, null)
})
